import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { LeaderElector } from '@oarlock/client/leader-election';
import { LeaseCandidacy } from '@oarlock/client/lease-candidacy';
import { optional } from '@oarlock/kernel/slot';
import { Client, Events, Informers } from '@oarlock/spi/client';
import { Cluster } from '@oarlock/spi/cluster';
import { Controllers } from '@oarlock/spi/controller';
import { Roles } from '@oarlock/spi/role';
import { z } from 'zod';
import { ControllerRunner } from './controller-runner.ts';
import { ControllersRole } from './controllers-role.ts';
import { coordinate } from './leader-election/coordinated.ts';
import { LeaderElectionController } from './leader-election/leader-election-controller.ts';
import { ServedResources } from '@oarlock/client/served-resources';

const objectName = /^(?=.{1,253}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/;

const config = z.strictObject({
  /** Lead through a Lease; needed as soon as two processes run controllers. */
  leaderElect: z.boolean().default(false),
  /** The Lease in kube-system; the default is that of kube-controller-manager, so that only one of the two leads. */
  leaseName: z.string().regex(objectName, 'a name of an object: lower case, digits, "-" and "."').default('kube-controller-manager'),
  /** The leader is chosen among LeaseCandidates (KEP-4355), as with the feature gate CoordinatedLeaderElection; the server has to have them. */
  coordinated: z.boolean().default(false),
  /**
   * In a process without an API server each loop asks with a token of its own service account in kube-system, which the user of the kubeconfig must
   * be allowed to make. Absent: it does so where that user may not do everything itself, as `system:kube-controller-manager`. Beside an API server
   * it is so anyway.
   */
  useServiceAccountCredentials: z.boolean().optional(),
  /** How many keys a controller works on at once, by its name. */
  workers: z.record(z.string(), z.int().min(1).max(1000)).default({}),
  /** Controllers that are not to run, by name. */
  disable: z.array(z.string()).default([]),
});

export default Roles.plugin({
  id: 'controllers',
  config,
  needs: { client: Client, informers: Informers, controllers: Controllers, events: optional(Events), facts: optional(Cluster) },
  create({ client, informers, controllers, events, facts, config: given }, { clock, log, tracer, metrics }) {
    const { leaderElect, leaseName, coordinated, workers, disable } = given;
    const names = controllers.map(({ name }) => name);
    const twice = names.find((name, at) => names.indexOf(name) !== at);
    if (twice !== undefined) throw new Error(`there are two controllers named ${twice}`);
    for (const name of [...disable, ...Object.keys(workers)]) {
      if (!names.includes(name)) throw new Error(`there is no controller ${name}; there are ${names.join(', ') || 'none'}`);
    }
    const common = { client, clock, log, tracer, metrics };
    const runners = controllers
      .filter(({ name }) => !disable.includes(name))
      .map((controller) => {
        const count = workers[controller.name];
        return new ControllerRunner({ controller, ...common, ...(count !== undefined && { workers: count }) });
      });
    // a candidate is named like it, and names of objects have no underscore
    const identity = coordinated ? `${hostname().toLowerCase()}-${randomUUID()}` : `${hostname()}_${randomUUID()}`;
    const lease = { namespace: 'kube-system', name: leaseName };
    const told = events && { events: events.recorder('kube-controller-manager') };
    const served = new ServedResources(client, clock);
    const chooser = () => new ControllerRunner({ controller: new LeaderElectionController(informers, clock), ...common });
    const election = { client, clock, log, random: Math.random, identity };
    const candidacy = () =>
      LeaseCandidacy.ofProgram(facts?.version ?? '', {
        ...{ client, informers, clock, log, leaseName },
        namespace: lease.namespace,
        name: identity,
      });
    return new ControllersRole({
      runners,
      log,
      clock,
      random: Math.random,
      served,
      apart: [
        (signal) => coordinate({ ...election, served, runner: chooser }, signal),
        ...(leaderElect && coordinated ? [(signal: AbortSignal) => candidacy().run(signal)] : []),
      ],
      ...(leaderElect && {
        elect: (onStarted: (signal: AbortSignal) => Promise<void>) =>
          new LeaderElector({ ...election, ...told, lease, coordinated, onStarted }),
      }),
    });
  },
});
