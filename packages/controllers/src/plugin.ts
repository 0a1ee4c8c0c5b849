import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { LeaderElector } from '@oarlock/client/leader-election';
import { optional } from '@oarlock/kernel/slot';
import { Client, Events, Informers } from '@oarlock/spi/client';
import { Controllers } from '@oarlock/spi/controller';
import { Roles } from '@oarlock/spi/role';
import { z } from 'zod';
import { ControllerRunner } from './controller-runner.ts';
import { ControllersRole } from './controllers-role.ts';
import { leaderRecorder } from './leader-events.ts';
import { ServedResources } from './served-resources.ts';

const config = z.strictObject({
  /** Lead through a Lease; needed as soon as two processes run controllers. */
  leaderElect: z.boolean().default(false),
  /** The Lease in kube-system; the default is that of kube-controller-manager, so that only one of the two leads. */
  leaseName: z.string().min(1).max(253).default('kube-controller-manager'),
  /** How many keys a controller works on at once, by its name. */
  workers: z.record(z.string(), z.int().min(1).max(1000)).default({}),
  /** Controllers that are not to run, by name. */
  disable: z.array(z.string()).default([]),
});

export default Roles.plugin({
  id: 'controllers',
  config,
  needs: { client: Client, informers: Informers, controllers: Controllers, events: optional(Events) },
  create({ client, controllers, events, config: { leaderElect, leaseName, workers, disable } }, { clock, log, tracer, metrics }) {
    const names = controllers.map(({ name }) => name);
    const twice = names.find((name, at) => names.indexOf(name) !== at);
    if (twice !== undefined) throw new Error(`there are two controllers named ${twice}`);
    for (const name of [...disable, ...Object.keys(workers)]) {
      if (!names.includes(name)) throw new Error(`there is no controller ${name}; there are ${names.join(', ') || 'none'}`);
    }
    const runners = controllers
      .filter(({ name }) => !disable.includes(name))
      .map((controller) => {
        const count = workers[controller.name];
        return new ControllerRunner({ controller, client, clock, log, tracer, metrics, ...(count !== undefined && { workers: count }) });
      });
    const identity = `${hostname()}_${randomUUID()}`;
    const lease = { namespace: 'kube-system', name: leaseName };
    const record = leaderRecorder(events?.recorder('oarlock-controllers', hostname()), lease);
    return new ControllersRole({
      runners,
      log,
      clock,
      random: Math.random,
      served: new ServedResources(client),
      ...(leaderElect && {
        elect: (onStarted: (signal: AbortSignal) => Promise<void>) =>
          new LeaderElector({
            client,
            clock,
            random: Math.random,
            log,
            lease,
            identity,
            onStarted(signal) {
              record(`${identity} became leader`);
              return onStarted(signal);
            },
          }),
      }),
    });
  },
});
