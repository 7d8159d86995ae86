//! Memberships of environments.

use gradloom_world::{Membership, Rendezvous};
use std::time::Duration;

fn read(text: &str) -> Result<Membership, String> {
    let find = |name: &str| {
        let mut pairs = text.split(' ').filter_map(|pair| pair.split_once('='));
        pairs.find(|(key, _)| *key == name).map(|(_, value)| value.to_string())
    };
    Membership::from_variables(&find).map_err(|error| {
        assert!(error.remedies().count() > 0, "{error}");
        error.message().to_string()
    })
}

fn direct(address: &str, port: u16) -> Rendezvous {
    Rendezvous::Direct { address: address.to_string(), port }
}

/// Returns rank, size, number on the host and meeting point.
fn place(text: &str) -> (usize, usize, usize, Rendezvous) {
    let membership = read(text).expect(text);
    (membership.rank, membership.size, membership.local_rank, membership.rendezvous)
}

#[test]
fn nothing_is_a_world_of_one() {
    let alone = (0, 1, 0, Rendezvous::Alone);
    for text in [
        "",
        "MASTER_ADDR=a MASTER_PORT=1",
        "RANK= WORLD_SIZE=",
        "SLURM_NTASKS=8 SLURM_PROCID=0 SLURM_JOB_ID=7 SLURM_NODELIST=a[1-8]",
        "SLURM_STEP_NUM_TASKS=1 SLURM_PROCID=0",
        "RANK=0 WORLD_SIZE=1 LOCAL_RANK=0 MASTER_ADDR=a MASTER_PORT=1",
        "OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=1 OMPI_COMM_WORLD_LOCAL_RANK=0 \
         OMPI_COMM_WORLD_LOCAL_SIZE=1",
    ] {
        assert_eq!(place(text), alone, "{text}");
    }
}

const TORCHRUN: &str = "RANK=5 WORLD_SIZE=8 LOCAL_RANK=1 MASTER_ADDR=host MASTER_PORT=29500";

#[test]
fn torchrun() {
    assert_eq!(place(TORCHRUN), (5, 8, 1, direct("host", 29500)));
    let elastic = format!("{TORCHRUN} TORCHELASTIC_RUN_ID=x TORCHELASTIC_RESTART_COUNT=2");
    assert_eq!(read(&elastic).unwrap().token, "torchrun x/2");
    assert_eq!(place(&format!("{elastic} TORCHELASTIC_USE_AGENT_STORE=False")).3, direct("host", 29500));
    let store = place(&format!("{elastic} TORCHELASTIC_USE_AGENT_STORE=True")).3;
    let key = "gradloom/torchrun x/2/address".to_string();
    assert_eq!(store, Rendezvous::TorchStore { address: "host".to_string(), port: 29500, key });
    // torchrun comes before Slurm, in whose steps it runs.
    assert_eq!(place(&format!("SLURM_STEP_NUM_TASKS=2 SLURM_PROCID=1 {TORCHRUN}")).0, 5);
}

#[test]
fn kubernetes_has_no_local_rank() {
    let text = "RANK=2 WORLD_SIZE=3 MASTER_ADDR=job-master-0 MASTER_PORT=23456";
    assert_eq!(place(text), (2, 3, 0, direct("job-master-0", 23456)));
}

const SLURM: &str = "SLURM_STEP_NUM_TASKS=4 SLURM_PROCID=3 SLURM_LOCALID=1 SLURM_JOB_ID=77 SLURM_STEP_ID=0 \
                     SLURM_STEP_NODELIST=n[003-010,12]";

#[test]
fn slurm() {
    let (rank, size, local_rank, rendezvous) = place(SLURM);
    assert_eq!((rank, size, local_rank), (3, 4, 1));
    let Rendezvous::Direct { address, port } = rendezvous else { panic!("{rendezvous:?}") };
    assert!(address == "n003" && (20_000..32_000).contains(&port), "{address}:{port}");
    let other = place(&SLURM.replace("STEP_ID=0", "STEP_ID=1")).3;
    assert_ne!(other, direct("n003", port));
    assert_eq!(place(&format!("{SLURM} MASTER_ADDR=m MASTER_PORT=5")).3, direct("m", 5));
    // Scripts set WORLD_SIZE for all of their tasks alike.
    assert_eq!(place(&format!("{SLURM} WORLD_SIZE=4")).0, 3);
}

const OPEN_MPI: &str = "OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_LOCAL_RANK=1";

#[test]
fn open_mpi() {
    let local = format!("{OPEN_MPI} OMPI_COMM_WORLD_LOCAL_SIZE=4");
    let (rank, size, local_rank, rendezvous) = place(&format!("{local} PMIX_NAMESPACE=prte-1@1"));
    assert_eq!((rank, size, local_rank), (1, 4, 1));
    assert!(matches!(rendezvous, Rendezvous::Direct { address, port: 20_000.. } if address == "127.0.0.1"));
    assert_eq!(place(&format!("{local} MASTER_PORT=7")).3, direct("127.0.0.1", 7));
    let remote = format!("{OPEN_MPI} OMPI_COMM_WORLD_LOCAL_SIZE=2 MASTER_ADDR=m MASTER_PORT=7");
    assert_eq!(place(&remote).3, direct("m", 7));
    // `mpirun` in an allocation of Slurm starts its daemons as tasks of a step.
    assert_eq!(place(&format!("{remote} SLURM_STEP_NUM_TASKS=2 SLURM_PROCID=0")).0, 1);
}

#[test]
fn a_wrong_variable_is_named() {
    let table = [
        ("WORLD_SIZE=2", "WORLD_SIZE is set, but RANK is not"),
        ("LOCAL_RANK=0", "LOCAL_RANK is set, but RANK is not"),
        ("RANK=0", "the environment variable WORLD_SIZE is not set"),
        ("RANK=8 WORLD_SIZE=8", "RANK is `8`, which is not a number below WORLD_SIZE, which is 8"),
        ("RANK=-1 WORLD_SIZE=8", "RANK is `-1`"),
        ("RANK=0 WORLD_SIZE=0", "WORLD_SIZE is `0`, which is not a number from 1"),
        ("RANK=0 WORLD_SIZE=two", "WORLD_SIZE is `two`"),
        ("RANK=0 WORLD_SIZE=99999999999", "WORLD_SIZE is `99999999999`"),
        ("RANK=0 WORLD_SIZE=2 LOCAL_RANK=x", "LOCAL_RANK is `x`"),
        ("RANK=0 WORLD_SIZE=2 LOCAL_RANK=2", "LOCAL_RANK is `2`"),
        ("RANK=0 WORLD_SIZE=2 MASTER_PORT=1", "variable MASTER_ADDR is not set"),
        ("RANK=0 WORLD_SIZE=2 MASTER_ADDR=a", "variable MASTER_PORT is not set"),
        ("RANK=0 WORLD_SIZE=2 MASTER_ADDR=a MASTER_PORT=0", "MASTER_PORT is `0`"),
        ("RANK=0 WORLD_SIZE=2 MASTER_ADDR=a MASTER_PORT=70000", "MASTER_PORT is `70000`"),
        ("SLURM_STEP_NUM_TASKS=4", "variable SLURM_PROCID is not set"),
        ("SLURM_STEP_NUM_TASKS=4 SLURM_PROCID=4", "SLURM_PROCID is `4`"),
        ("SLURM_STEP_NUM_TASKS=4 SLURM_PROCID=1 SLURM_LOCALID=0", "variable SLURM_JOB_ID is not set"),
        ("OMPI_COMM_WORLD_RANK=0", "variable OMPI_COMM_WORLD_SIZE is not set"),
        ("GRADLOOM_WORLD_JOIN_SECONDS=soon", "GRADLOOM_WORLD_JOIN_SECONDS is `soon`"),
        ("GRADLOOM_WORLD_STALL_SECONDS=0", "GRADLOOM_WORLD_STALL_SECONDS is `0`"),
        ("GRADLOOM_WORLD_HEARTBEAT_SECONDS=inf", "GRADLOOM_WORLD_HEARTBEAT_SECONDS is `inf`"),
    ];
    for (text, message) in table {
        let error = read(text).expect_err(text);
        assert!(error.contains(message), "{text}: {error}");
    }
    let broken = read(&SLURM.replace("n[003-010,12]", "n[")).unwrap_err();
    assert!(broken.contains("SLURM_STEP_NODELIST is `n[`"), "{broken}");
    let several = read(&format!("{OPEN_MPI} OMPI_COMM_WORLD_LOCAL_SIZE=2 MASTER_PORT=7")).unwrap_err();
    assert!(several.contains("MASTER_ADDR"), "{several}");
    let nameless = read(&format!("{OPEN_MPI} OMPI_COMM_WORLD_LOCAL_SIZE=4")).unwrap_err();
    assert!(nameless.contains("MASTER_PORT"), "{nameless}");
}

#[test]
fn timeouts_are_read() {
    let text =
        "GRADLOOM_WORLD_JOIN_SECONDS=1.5 GRADLOOM_WORLD_HEARTBEAT_SECONDS=2 GRADLOOM_WORLD_STALL_SECONDS=3";
    let options = read(text).unwrap().options;
    assert_eq!(options.join_timeout, Duration::from_millis(1500));
    assert_eq!(options.heartbeat_timeout, Duration::from_secs(2));
    assert_eq!(options.stall_timeout, Duration::from_secs(3));
}

#[test]
fn an_impossible_membership_is_refused() {
    for membership in [Membership::direct(2, 2, "a", 1), Membership { size: 2, ..Membership::alone() }] {
        gradloom_world::World::join(membership).unwrap_err();
    }
}
