import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { leaderElectionMetrics } from '@oarlock/client/leader-election/leader-election-metrics';
import { LeaderElector } from '@oarlock/client/leader-election/leader-elector';
import { ResourceDiscovery } from '@oarlock/client/resource-discovery';
import { ControllerManager } from '@oarlock/controllers/manager/controller-manager';
import { ControllerRunner } from '@oarlock/controllers/manager/controller-runner';
import type { Plugin } from '@oarlock/kernel/plugin';
import { Client, Events } from '@oarlock/spi/client';
import { Controllers } from '@oarlock/spi/controller';
import { Roles } from '@oarlock/spi/role';
import { z } from 'zod';
import type { LeaderElection } from './leader-election.ts';
import { serveComponent } from './serve-component.ts';

/** Returns the role that runs the controllers of the host: always, or while this process holds the Lease. */
export const controllerRole = (election: LeaderElection | undefined): Plugin =>
  Roles.plugin({
    id: 'controllers',
    config: z.strictObject({}),
    needs: { client: Client, controllers: Controllers, events: Events },
    create({ client, controllers, events }, { clock, log, tracer, metrics }) {
      const electionOptions = { client, clock, log, random: Math.random, identity: `${hostname()}_${randomUUID()}` };
      return new ControllerManager({
        runners: controllers.map((controller) => new ControllerRunner({ controller, client, clock, log, tracer, metrics })),
        log,
        clock,
        random: Math.random,
        discovery: new ResourceDiscovery(client, clock),
        ...(election && {
          elect: (onStartedLeading: (signal: AbortSignal) => Promise<void>) =>
            new LeaderElector({
              ...electionOptions,
              ...election,
              metrics: leaderElectionMetrics(metrics, election.lease.name),
              events: events.recorder(election.lease.name),
              onStartedLeading,
            }),
        }),
      });
    },
  });

/** Runs an exported controller plugin as `serveComponent` does. */
export function serve(plugin: Plugin, args?: readonly string[]): Promise<void> {
  return serveComponent(plugin, ({ election }) => ({ role: { plugin: controllerRole(election), config: {} } }), args);
}
