//! The first rows of a source, read on one thread.

use haul_model::{Form, Next, Payload, Position, Reading, Result, Rows, Source, Strict};

/// At least the first `wanted` rows (or all there are), as batches.
///
/// # Errors
/// Whatever reading can meet; a bad row is one.
pub fn rows(source: &mut dyn Source, form: Form, wanted: usize) -> Result<Vec<Rows>> {
    let plan = source.plan(&Reading { pass_through: None, form, degree: 1, ordered: true })?;
    let mut decoder = source.decoder(form)?;
    let (mut out, mut have) = (Vec::new(), 0);
    for split in &plan.splits {
        let mut reader = source.open(split, &Position::start())?;
        while have < wanted {
            match reader.next()? {
                Next::End => break,
                Next::Idle => std::thread::sleep(std::time::Duration::from_millis(1)),
                Next::Batch(batch) => match batch.payload {
                    Payload::Columns(batch) => {
                        have += batch.num_rows();
                        out.push(Rows::new(batch, 0));
                    }
                    Payload::Raw(raw) => decoder.decode(raw, &mut Strict::default(), &mut |rows, _| {
                        have += rows.batch.num_rows();
                        out.push(rows);
                        Ok(())
                    })?,
                },
            }
        }
        if have >= wanted {
            break;
        }
    }
    Ok(out)
}
