import { leaseCandidatesV1beta1 } from '@oarlock/api/resources';
import { LeaderElector } from '@oarlock/client/leader-election/leader-elector';
import type { Clock } from '@oarlock/primitives/clock';
import type { Logger } from '@oarlock/primitives/logger';
import type { Client } from '@oarlock/spi/client';
import type { ControllerRunner } from '../../manager/controller-runner.ts';
import type { ResourceDiscovery } from '@oarlock/client/resource-discovery';

export interface CoordinationOptions {
  readonly client: Client;
  readonly clock: Clock;
  readonly log: Logger;
  /** A random number generator: returns a number in [0, 1). */
  readonly random: () => number;
  readonly identity: string;
  readonly discovery: ResourceDiscovery;
  /** Creates the runner of the leader election controller. Called at most once, and only if the API server serves LeaseCandidates. */
  createRunner(): ControllerRunner;
}

const retryMs = 10_000;

/**
 * Runs the coordinated leader election controller in one process at a time. The controller has a Lease of its own, independent of the Lease
 * of the other controllers, as in kube-apiserver. Returns at once if the API server does not serve LeaseCandidates.
 */
export async function runCoordinatedLeaderElection(
  { client, clock, log, random, identity, discovery, createRunner }: CoordinationOptions,
  signal: AbortSignal,
): Promise<void> {
  while (!signal.aborted) {
    try {
      if (!(await discovery.has(leaseCandidatesV1beta1))) return;
      break;
    } catch (error) {
      log.warn({ err: error }, 'cannot determine whether the API server serves LeaseCandidates; retrying');
      await clock.sleep(retryMs, signal).catch(() => undefined);
    }
  }
  if (signal.aborted) return;
  const controllerRunner = createRunner();
  const lease = { namespace: 'kube-system', name: 'leader-election-controller' };
  await new LeaderElector({ client, clock, random, log, lease, identity, onStartedLeading: (term) => controllerRunner.run(term) }).run(
    signal,
  );
}
