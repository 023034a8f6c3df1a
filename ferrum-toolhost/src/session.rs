//! A sealed host as a session: its walls judged by the tier's promises, its answer ready to be sent.

use crate::admit::Judge;
use crate::command::Commands;
use crate::confine::Confined;
use crate::exec::cgroup::SessionCgroup;
use crate::exec::run::{Reach, Runner};
use crate::guard::Guard;
use crate::host::{Built, Start};
use crate::outbox::{Outbox, micros};
use crate::report;
use crate::seal::to_wire;
use ferrum_proto::seal::{Ready, SealFailed, SealFailure, Wall};
use policy::isolation::Promise;
use policy::{Grant, Ground, Isolation, Require, Tier};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// Ready to serve.
pub struct Session {
    pub outbox: Outbox,
    pub judge: Arc<Judge>,
    pub cwd: Arc<OwnedFd>,
    pub commands: Commands,
    pub guard: Arc<Mutex<Guard>>,
    /// Runs the prober and nothing else.
    pub probes: bool,
    pub ready: Ready,
}

impl Session {
    /// Judges the walls by the tier's promises.
    ///
    /// # Errors
    /// The failed seal, where less is in force than is required.
    pub fn new(
        start: Start,
        built: Built,
        confined: Confined,
        runner: Runner,
        cwd: OwnedFd,
        environment: Vec<String>,
    ) -> Result<Self, (Outbox, SealFailed)> {
        let grant = start.decision.grant.clone();
        let (isolation, promises) =
            policy::isolation::judge(grant.tier(), confined.network(), confined.walls());
        let walls = report::walls(confined.walls(), &start.missing);
        if !is_enough(isolation, grant.require()) {
            let (message, hint) = report::too_weak(grant.tier(), isolation, grant.require(), &walls);
            let kind = SealFailure::Isolation;
            return Err((start.outbox, SealFailed { kind, message, hint }));
        }
        let judged = Judged {
            isolation,
            promises,
            walls,
        };
        let scoped = runner.reach == Reach::Subreaper { scoped: true };
        let controllers = runner.cgroup.as_ref().map(SessionCgroup::controllers);
        let mut ready = ready(&start, &built, &confined, judged, environment, scoped);
        ready.limits = report::limits(
            &start.seal.charter.limits,
            grant.tier(),
            confined.walls(),
            &controllers.unwrap_or_default(),
        );
        let ground = ground(&start, &built, &confined, isolation);
        let (containment, network) = (ready.containment, confined.network());
        let judge = Arc::new(Judge { grant, ground });
        let guard = Arc::new(Mutex::new(built.guard));
        let view = built
            .view
            .entries
            .iter()
            .map(|entry| entry.path.clone())
            .collect();
        let commands = Commands::new(
            runner,
            Arc::clone(&judge),
            Arc::clone(&guard),
            network,
            containment,
            view,
        );
        Ok(Self {
            outbox: start.outbox,
            judge,
            cwd: Arc::new(cwd),
            commands,
            guard,
            probes: start.seal.wish.probes,
            ready,
        })
    }
}

struct Judged {
    isolation: Isolation,
    promises: Vec<Promise>,
    walls: Vec<Wall>,
}

fn ground(start: &Start, built: &Built, confined: &Confined, isolation: Isolation) -> Ground {
    let grant = &start.decision.grant;
    let places = &start.seal.charter.places;
    Ground {
        cwd: start.decision.cwd.clone(),
        home: built.home.clone(),
        writable: grant.writable_roots().to_vec(),
        readable: grant.readable_roots().to_vec(),
        private: private_places(built, confined.walls().mount_view && grant.tier() != Tier::Low),
        protected: [&places.config, &places.data].map(|p| p.to_path_buf()).into(),
        isolation,
    }
}

fn ready(
    start: &Start,
    built: &Built,
    confined: &Confined,
    judged: Judged,
    environment: Vec<String>,
    scoped: bool,
) -> Ready {
    let grant: &Grant = &start.decision.grant;
    let mut notices = built.notices.clone();
    if confined.network() != grant.network() {
        notices.push(
            "network is none: private needs a network namespace, which this machine does not give".into(),
        );
    }
    let shell = report::shell(grant.shell(), judged.isolation);
    if shell != grant.shell() {
        notices.push("shell is static: auto needs full isolation".into());
    }
    Ready {
        isolation: to_wire::isolation(judged.isolation),
        network: to_wire::network(confined.network()),
        shell: to_wire::shell(shell),
        containment: report::containment(confined.walls(), scoped),
        walls: judged.walls,
        promises: report::promises(judged.promises),
        view: report::view(&built.view, &start.seal, grant.tier(), confined.walls()),
        protected: built.guard.protected(),
        limits: Vec::new(),
        environment,
        notices,
        setup_us: micros(start.began),
    }
}

fn is_enough(isolation: Isolation, require: Require) -> bool {
    let wanted = match require {
        Require::Any => Isolation::Partial,
        Require::Kernel => Isolation::Kernel,
        Require::Full => Isolation::Full,
    };
    isolation >= wanted
}

fn private_places(built: &Built, mounted: bool) -> Vec<PathBuf> {
    if mounted {
        ["/tmp", "/var/tmp", "/dev/shm"]
            .iter()
            .map(PathBuf::from)
            .chain([built.home.clone()])
            .collect()
    } else {
        vec![built.temporary.clone(), built.home.clone()]
            .into_iter()
            .filter(|p| p != Path::new("/tmp") && p != &built.view.home)
            .collect()
    }
}
