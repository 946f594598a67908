use super::*;
use crate::OnError;

fn plan(block_bytes: usize, whole_splits: bool) -> WritePlan {
    WritePlan {
        method: String::new(),
        ddl: Vec::new(),
        columns: Vec::new(),
        notes: Vec::new(),
        guarantee: haul_model::Guarantee::AllOrNothing,
        own_connections: true,
        whole_splits,
        in_split_order: false,
        max_writers: None,
        block_bytes,
        run_bytes: None,
    }
}

fn read() -> ReadPlan {
    let split = |id| haul_model::Split { id, what: String::new(), rows: None, bytes: None };
    ReadPlan { splits: (0..9).map(split).collect(), ..ReadPlan::default() }
}

fn options(pools: Pools, budget: u64) -> Options {
    Options { pools, budget, ..Options::default() }
}

#[test]
fn nothing_is_there_unless_it_is_asked_for() {
    let mut notes = Vec::new();
    let planned = Planned::of(&options(Pools::default(), 64 << 20), &read(), &plan(1 << 20, false), &mut notes);
    assert_eq!((planned, planned.held(&options(Pools::default(), 64 << 20)), notes.len()), (Planned::default(), 0, 0));
}

#[test]
fn queues_stay_inside_a_quarter_of_the_budget() {
    let pools = Pools { extractors: Some(4), extractor_queue: Some(100), loaders: Some(2), loader_queue: Some(3), transformers: None };
    let (options, mut notes) = (options(pools, 64 << 20), Vec::new());
    let planned = Planned::of(&options, &read(), &plan(1 << 20, false), &mut notes);
    assert_eq!(planned.to_string(), "4 extractors, 16 chunks ahead for each split; 2 loaders, 6 blocks before them");
    assert_eq!(planned.held(&options), 32 << 20);
    assert_eq!(notes.len(), 1);
    assert_eq!(notes[0].text, "extractor_queue: 16 for each of 4, so that a quarter of the budget holds them");
}

#[test]
fn a_target_that_sorts_its_rows_into_writers_has_no_loaders() {
    let pools = Pools { loaders: Some(2), ..Pools::default() };
    let rejecting = Options { on_error: OnError::Reject { max: 9 }, ..options(pools.clone(), 64 << 20) };
    for (options, whole_splits, why) in [
        (options(pools.clone(), 64 << 20), true, "the rows of a split go to one writer"),
        (Options { limit: Some(3), ..options(pools, 64 << 20) }, false, "a limited number of rows"),
        (rejecting, false, "are handed back to the worker"),
    ] {
        let mut notes = Vec::new();
        assert_eq!(Planned::of(&options, &read(), &plan(1, whole_splits), &mut notes).loaders, None);
        assert!(notes[0].text.contains(why), "{notes:?}");
    }
}

#[test]
fn pools_are_no_larger_than_what_they_work_on() {
    let pools = Pools { extractors: Some(40), loaders: Some(40), ..Pools::default() };
    let write = WritePlan { max_writers: Some(3), ..plan(1, false) };
    let mut notes = Vec::new();
    let planned = Planned::of(&options(pools.clone(), 1 << 30), &read(), &write, &mut notes);
    assert_eq!((planned.extractors, planned.loaders), (Some((9, 8)), Some((3, 6))));
    assert_eq!(notes[0].text, "40 loaders were asked for: the target has room for 3");
    let two = ReadPlan { network: true, lanes: 2, ..read() };
    assert_eq!(Planned::of(&options(pools, 1 << 30), &two, &write, &mut notes).extractors, Some((2, 8)));
}
