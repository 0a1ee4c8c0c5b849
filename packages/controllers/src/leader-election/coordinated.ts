import { leaseCandidatesV1beta1 } from '@oarlock/api/resources';
import { LeaderElector } from '@oarlock/client/leader-election';
import type { Clock } from '@oarlock/kernel/clock';
import type { Logger } from '@oarlock/kernel/logger';
import type { Client } from '@oarlock/spi/client';
import type { ControllerRunner } from '../controller-runner.ts';
import type { ServedResources } from '@oarlock/client/served-resources';

export interface CoordinationOptions {
  readonly client: Client;
  readonly clock: Clock;
  readonly log: Logger;
  /** In [0, 1). */
  readonly random: () => number;
  readonly identity: string;
  readonly served: ServedResources;
  /** Makes what runs the loop: called at most once, where the server has LeaseCandidates. */
  runner(): ControllerRunner;
}

const retryMs = 10_000;

/**
 * Runs the loop that chooses leaders beside those that a leader runs: in one process at a time, by a lease of its own, as API servers of Kubernetes do.
 * Ends at once where the server has no LeaseCandidates.
 */
export async function coordinate(
  { client, clock, log, random, identity, served, runner }: CoordinationOptions,
  signal: AbortSignal,
): Promise<void> {
  while (!signal.aborted) {
    try {
      if (!(await served.has(leaseCandidatesV1beta1))) return;
      break;
    } catch (error) {
      log.warn({ err: error }, 'the server does not say whether it has LeaseCandidates; asking again');
      await clock.sleep(retryMs, signal).catch(() => undefined);
    }
  }
  if (signal.aborted) return;
  const loop = runner();
  const lease = { namespace: 'kube-system', name: 'leader-election-controller' };
  await new LeaderElector({ client, clock, random, log, lease, identity, onStarted: (term) => loop.run(term) }).run(signal);
}
