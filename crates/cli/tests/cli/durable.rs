//! Whatever happens, a file under its final name is whole: the old one or the new one.

use crate::runner::{Folder, full};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

const OLD: &str = "{\"the\":\"old file\"}\n";

fn signal(child: &Child, name: &str) {
    assert!(Command::new("kill").args([name, &child.id().to_string()]).status().unwrap().success());
}

/// Delays that are the same in every run.
fn delays(seed: u64, count: usize, up_to: Duration) -> Vec<Duration> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as f64 / f64::from(1u32 << 31)
    };
    (0..count).map(|_| up_to.mul_f64(next())).collect()
}

#[test]
fn fs_01_kill_9_at_any_moment() {
    let dir = Folder::new();
    let rows: u64 = if full() { 500_000 } else { 60_000 };
    dir.haul(&["generate", "bench", "a.csv", "--rows", &rows.to_string()]).ok();
    for (target, flags) in
        [("o.jsonl", &[][..]), ("o.parquet", &["--cast", "id:bigint,amount:double"]), ("o.csv.gz", &[]), ("o.jsonl.zst", &[])]
    {
        let mut arguments = vec!["copy", "a.csv", target];
        arguments.extend(flags);
        let started = Instant::now();
        dir.haul(&arguments).ok();
        let whole_run = started.elapsed();
        let new = dir.read(target);
        let mut killed = 0;
        for (round, delay) in delays(20_260_101, 20, whole_run).into_iter().enumerate() {
            dir.write(target, OLD);
            let mut child = dir.start(&arguments);
            std::thread::sleep(delay);
            let _ = child.kill();
            let status = child.wait().unwrap();
            killed += u32::from(status.signal() == Some(9));
            let found = dir.read(target);
            assert!(found == OLD.as_bytes() || found.len() == new.len(), "{target}, round {round}: {} bytes", found.len());
            if status.success() {
                assert_ne!(found, OLD.as_bytes());
            }
            assert_eq!(dir.names(), ["a.csv", target], "nothing is left behind");
        }
        assert!(killed >= 5, "{target}: only {killed} of 20 runs were caught at work");
        std::fs::remove_file(dir.path(target)).unwrap();
    }
}

#[test]
fn fs_01_ctrl_c_and_sigterm_leave_the_old_file() {
    let dir = Folder::new();
    dir.line("generate bench a.csv --rows 300000").ok();
    dir.write("o.parquet", OLD);
    for name in ["-INT", "-TERM"] {
        let child = dir.start(&["copy", "a.csv", "o.parquet", "--cast", "id:bigint"]);
        std::thread::sleep(Duration::from_millis(150));
        signal(&child, name);
        let ran = dir.ran(child.wait_with_output().unwrap());
        assert_eq!((ran.code, ran.err.as_str(), ran.out.as_str()), (130, "error: stopped by the user\n", ""), "{name}");
        assert_eq!(dir.text("o.parquet"), OLD);
        assert_eq!(dir.names(), ["a.csv", "o.parquet"]);
    }
}

#[test]
fn fs_01_an_error_in_the_source_leaves_the_old_file() {
    let dir = Folder::new();
    let text: String = "a,b\n".to_string() + &(0..200_000).map(|i| format!("{i},x\n")).collect::<String>() + "oops\n";
    dir.write("a.csv", text);
    for target in ["o.jsonl", "o.parquet", "o.arrow", "o.csv.gz", "o.jsonl.zst", "o.csv.lz4"] {
        dir.write(target, OLD);
        let ran = dir.haul(&["copy", "a.csv", target]).failed();
        assert!(ran.err.contains("line 200002"), "{ran:?}");
        assert_eq!(dir.text(target), OLD);
        std::fs::remove_file(dir.path(target)).unwrap();
        assert_eq!(dir.names(), ["a.csv"]);
    }
}

#[test]
fn fs_01_a_symbolic_link_stays_one() {
    let dir = Folder::new();
    dir.write("a.csv", "a\n1\n");
    std::fs::create_dir(dir.path("real")).unwrap();
    dir.write("real/o.jsonl", OLD);
    std::fs::set_permissions(dir.path("real/o.jsonl"), std::fs::Permissions::from_mode(0o640)).unwrap();
    std::os::unix::fs::symlink("real/o.jsonl", dir.path("o.jsonl")).unwrap();
    dir.line("copy a.csv o.jsonl").ok();
    assert!(dir.path("o.jsonl").is_symlink());
    assert_eq!(dir.text("real/o.jsonl"), "{\"a\":\"1\"}\n");
    assert_eq!(std::fs::metadata(dir.path("real/o.jsonl")).unwrap().permissions().mode() & 0o777, 0o640);
    // A link to nothing yet: the file that it names is made.
    std::os::unix::fs::symlink("real/new.jsonl", dir.path("new.jsonl")).unwrap();
    dir.line("copy a.csv new.jsonl").ok();
    assert!(dir.path("new.jsonl").is_symlink());
    assert_eq!(dir.text("real/new.jsonl"), "{\"a\":\"1\"}\n");
}

#[test]
fn fs_01_modes_and_permissions() {
    let dir = Folder::new();
    dir.write("a.csv", "a\n1\n");
    dir.write("o.jsonl", OLD);
    let ran = dir.line("copy a.csv o.jsonl --mode create").failed();
    assert!(ran.err.contains("o.jsonl: the file exists") && ran.err.contains("--mode replace"), "{ran:?}");
    let ran = dir.line("copy a.csv o.jsonl --mode append");
    assert!(ran.code != 0 && ran.err.contains("append"), "{ran:?}");
    assert_eq!(dir.text("o.jsonl"), OLD);
    dir.line("copy a.csv n.jsonl --mode create --fsync off").ok();
    assert_eq!(std::fs::metadata(dir.path("n.jsonl")).unwrap().permissions().mode() & 0o111, 0);
    // Root may write anywhere, so only others can be refused.
    let folder = dir.path("ro");
    std::fs::create_dir(&folder).unwrap();
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o555)).unwrap();
    let mut command = dir.command(&["copy", "a.csv", "ro/o.jsonl"]);
    if std::fs::write(folder.join("probe"), "").is_ok() {
        std::fs::remove_file(folder.join("probe")).unwrap();
        std::fs::set_permissions(dir.path("."), std::fs::Permissions::from_mode(0o755)).unwrap();
        use std::os::unix::process::CommandExt;
        command.uid(65_534).gid(65_534);
        let Ok(output) = command.output() else { return };
        // Where another user cannot even start the program (a private build folder) there is nothing to see.
        let ran = dir.ran(output).failed();
        assert!(ran.err.contains("ro") && ran.err.contains("permission denied"), "{ran:?}");
    } else {
        let ran = dir.ran(command.output().unwrap()).failed();
        assert!(ran.err.contains("ro") && ran.err.contains("permission denied"), "{ran:?}");
    }
    assert!(std::fs::read_dir(&folder).unwrap().next().is_none());
}

/// A small file system: the one that the test script made, else one of our own.
struct SmallDisk {
    path: PathBuf,
    _folder: Option<Folder>,
    own: bool,
}

impl SmallDisk {
    fn get() -> Self {
        if let Some(path) = std::env::var_os("HAUL_SMALL_DISK") {
            return Self { path: path.into(), _folder: None, own: false };
        }
        let folder = Folder::new();
        let path = folder.path("small");
        std::fs::create_dir(&path).unwrap();
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=20m", "haul-small"]).arg(&path).status();
        assert!(
            mounted.is_ok_and(|s| s.success()),
            "this test needs a file system of 20 MB: run it through ./test, as root, or name one in HAUL_SMALL_DISK"
        );
        Self { path, _folder: Some(folder), own: true }
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        if self.own {
            let _ = Command::new("umount").arg(&self.path).status();
        }
    }
}

#[test]
fn op_02_a_full_disk() {
    let disk = SmallDisk::get();
    let dir = Folder::new();
    // Values that do not compress, so that every format is larger than the disk.
    dir.python(
        "import random,base64
r=random.Random(1)
with open('a.csv','w') as f:
    f.write('id,t\\n')
    for i in range(60000): f.write('%d,%s\\n'%(i,base64.b64encode(r.randbytes(720)).decode()))",
    );
    let home = disk.path.join(format!("op02-{}", std::process::id()));
    std::fs::create_dir(&home).unwrap();
    for target in ["o.csv", "o.csv.gz", "o.jsonl", "o.parquet", "o.arrow", "o.jsonl.zst"] {
        let path = home.join(target);
        let ran = dir.haul(&["copy", "a.csv", &path.display().to_string()]).failed();
        assert!(ran.err.contains(target) && ran.err.contains("no space left"), "{ran:?}");
        assert!(std::fs::read_dir(&home).unwrap().next().is_none(), "{target}: something is left");
    }
    // The last 4 KiB: the error may come only when the file is closed.
    dir.write("s.csv", format!("id,t\n{}", (0..400).map(|i| format!("{i},{:0>60}\n", i * 7919)).collect::<String>()));
    let filler = home.join("filler");
    let mut size = 1 << 20;
    let mut file = std::fs::File::create(&filler).unwrap();
    while size >= 4096 {
        if std::io::Write::write_all(&mut file, &vec![1; size]).is_err() {
            size /= 2;
        }
    }
    drop(file);
    for target in ["s.jsonl", "s.parquet"] {
        let path = home.join(target);
        let ran = dir.haul(&["copy", "s.csv", &path.display().to_string()]).failed();
        assert!(ran.err.contains("no space left"), "{ran:?}");
        assert!(!path.exists());
    }
    // The file for rejected rows is full: that is a failure too, and the target stays away.
    dir.write("bad.csv", "a,b\n".to_string() + &"1\n".repeat(900) + "1,2\n");
    let rejects = home.join("rejects").display().to_string();
    let ran = dir.haul(&["copy", "bad.csv", "o.jsonl", "--on-error", "reject", "--rejects", &rejects]).failed();
    assert!(ran.err.contains("no space left"), "{ran:?}");
    assert!(!dir.path("o.jsonl").exists());
    std::fs::remove_dir_all(&home).unwrap();
}
