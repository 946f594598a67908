//! Changes of another PostgreSQL: this sink hands them to [`Apply`].

use super::settings::Mode;
use crate::postgres::cdc::apply::{Apply, Asked};
use crate::postgres::session::Session;
use haul_model::{Error, ErrorKind, Incoming, Result, WritePlan};

impl super::PostgresSink {
    /// Changes go to tables of their own names, or to the one that is named.
    pub(super) fn plan_changes(&mut self, control: &mut Session, incoming: &Incoming) -> Result<WritePlan> {
        let options = &self.options;
        let meets = match options.mode {
            None => None,
            Some(Mode::Append) => Some(false),
            Some(Mode::Truncate) => Some(true),
            Some(_) => {
                return Err(Error::new(ErrorKind::Config, "changes are applied as the source made them, whatever the mode")
                    .hint("leave mode out; truncate empties the tables before a snapshot comes, append keeps what is there"));
            }
        };
        let asked = Asked {
            named: self.target.table.clone(),
            create: options.create,
            add_columns: options.add_columns,
            meets,
            replica: !options.triggers,
        };
        let (apply, plan) = Apply::plan(control, incoming, asked, self.identity.as_deref())?;
        self.apply = Some(apply);
        Ok(plan)
    }
}
