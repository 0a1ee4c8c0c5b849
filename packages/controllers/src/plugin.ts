import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { leaderElectionMetrics } from '@oarlock/client/leader-election/leader-election-metrics';
import { LeaderElector } from '@oarlock/client/leader-election/leader-elector';
import { LeaseCandidacy } from '@oarlock/client/leader-election/lease-candidacy';
import { optional } from '@oarlock/kernel/slot';
import { Client, Events, Informers } from '@oarlock/spi/client';
import { Cluster } from '@oarlock/spi/cluster';
import { Controllers } from '@oarlock/spi/controller';
import { Roles } from '@oarlock/spi/role';
import { z } from 'zod';
import { ControllerRunner } from './manager/controller-runner.ts';
import { ControllerManager } from './manager/controller-manager.ts';
import { runCoordinatedLeaderElection } from './api-machinery/leader-election/coordinated-leader-election.ts';
import { LeaderElectionController } from './api-machinery/leader-election/leader-election-controller.ts';
import { ResourceDiscovery } from '@oarlock/client/resource-discovery';

const objectName = /^(?=.{1,253}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/;

const config = z.strictObject({
  /** Uses leader election with a Lease. Required if more than one process runs controllers. */
  leaderElect: z.boolean().default(false),
  /**
   * Name of the Lease in kube-system. The default is the Lease of kube-controller-manager, so that only Oarlock or kube-controller-manager is the
   * leader.
   */
  leaseName: z.string().regex(objectName, 'a name of an object: lower case, digits, "-" and "."').default('kube-controller-manager'),
  /** Chooses the leader among LeaseCandidates (KEP-4355, feature gate CoordinatedLeaderElection); the API server must serve them. */
  coordinated: z.boolean().default(false),
  /**
   * Makes each controller authenticate with a token of its own service account in kube-system, in a process without an API server. The user of
   * the kubeconfig must be allowed to create these tokens. Default: true, unless the permissions of that user suffice for all controllers, as
   * those of `system:kube-controller-manager` do. In a process with an API server, controllers always use their own service accounts.
   */
  useServiceAccountCredentials: z.boolean().optional(),
  /** Number of concurrent reconciles, keyed by controller name. */
  workers: z.record(z.string(), z.int().min(1).max(1000)).default({}),
  /** Names of the controllers that run although they are disabled by default. */
  enable: z.array(z.string()).default([]),
  /** Names of the controllers that do not run. */
  disable: z.array(z.string()).default([]),
});

export default Roles.plugin({
  id: 'controllers',
  config,
  needs: { client: Client, informers: Informers, controllers: Controllers, events: optional(Events), facts: optional(Cluster) },
  create({ client, informers, controllers, events, facts, config: settings }, { clock, log, tracer, metrics }) {
    const { leaderElect, leaseName, coordinated, workers, enable, disable } = settings;
    const names = controllers.map(({ name }) => name);
    const duplicate = names.find((name, at) => names.indexOf(name) !== at);
    if (duplicate !== undefined) throw new Error(`two controllers have the name ${duplicate}`);
    for (const name of [...enable, ...disable, ...Object.keys(workers)]) {
      if (!names.includes(name)) throw new Error(`unknown controller ${name}; known controllers: ${names.join(', ') || 'none'}`);
    }
    const common = { client, clock, log, tracer, metrics };
    const runners = controllers
      .filter(({ name, isDisabledByDefault }) => !disable.includes(name) && (isDisabledByDefault !== true || enable.includes(name)))
      .map((controller) => {
        const count = workers[controller.name];
        return new ControllerRunner({ controller, ...common, ...(count !== undefined && { workers: count }) });
      });
    // the LeaseCandidate is named after the identity, and object names must not contain underscores
    const identity = coordinated ? `${hostname().toLowerCase()}-${randomUUID()}` : `${hostname()}_${randomUUID()}`;
    const lease = { namespace: 'kube-system', name: leaseName };
    const electionEvents = events && { events: events.recorder('kube-controller-manager') };
    const discovery = new ResourceDiscovery(client, clock);
    const createRunner = () => new ControllerRunner({ controller: new LeaderElectionController(informers, clock), ...common });
    const electionOptions = { client, clock, log, random: Math.random, identity };
    const candidacy = () =>
      LeaseCandidacy.ofProgram(facts?.version ?? '', {
        ...{ client, informers, clock, log, leaseName, emulates: facts?.emulationVersion },
        namespace: lease.namespace,
        name: identity,
      });
    return new ControllerManager({
      runners,
      log,
      clock,
      random: Math.random,
      discovery,
      backgroundTasks: [
        (signal) => runCoordinatedLeaderElection({ ...electionOptions, discovery, createRunner }, signal),
        ...(leaderElect && coordinated ? [(signal: AbortSignal) => candidacy().run(signal)] : []),
      ],
      ...(leaderElect && {
        elect: (onStarted: (signal: AbortSignal) => Promise<void>) =>
          new LeaderElector({
            ...electionOptions,
            ...electionEvents,
            lease,
            coordinated,
            metrics: leaderElectionMetrics(metrics, lease.name),
            onStartedLeading: onStarted,
          }),
      }),
    });
  },
});
