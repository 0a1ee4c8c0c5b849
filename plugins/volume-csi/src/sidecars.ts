import { leases } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import { Attacher } from './attacher.ts';
import { CapacityReporter } from './capacity-reporter.ts';
import { ClaimedWork, type Work } from './claimed-work.ts';
import { Modifier } from './modifier.ts';
import type { NodeExpansion } from './node-expansion.ts';
import { Provisioner } from './provisioner.ts';
import { Resizer } from './resizer.ts';
import { Snapshotter } from './snapshotter.ts';
import type { Staging } from './staging.ts';
import type { Sidecar, SidecarOptions } from './sidecar.ts';

export interface SidecarsOptions extends SidecarOptions {
  readonly staging: Staging;
  readonly expansion: NodeExpansion;
}

/**
 * All that a driver can have done for it, begun. What it cannot do itself nobody is there for; what a sidecar of Kubernetes claims is left to
 * it, for as long as it does. A driver that is run from here has none.
 * @throws StatusError
 */
export async function startSidecars(options: SidecarsOptions): Promise<readonly Sidecar[]> {
  const { driver, client, informers, clock, log } = options;
  const claimed = !('run' in driver.config) && (await client.list(leases, { limit: 1 }).then(() => true, notAllowed));
  const begun = parts(options).map(([work, make]) =>
    claimed ? new ClaimedWork({ work, driver: driver.name, informers, clock, log, make }) : make(),
  );
  for (const each of begun) each.start();
  return begun;
}

function parts(options: SidecarsOptions): readonly (readonly [Work, () => Sidecar])[] {
  const { controllerAbilities: can, config } = options.driver;
  return [
    ['attach', () => new Attacher(options)],
    ...(can.has('CREATE_DELETE_VOLUME') ? [['provision', () => new Provisioner(options)] as const] : []),
    ['resize', () => new Resizer(options)],
    ...(can.has('MODIFY_VOLUME') ? [['resize', () => new Modifier(options)] as const] : []),
    ...(can.has('CREATE_DELETE_SNAPSHOT')
      ? ([
          ['bind-snapshots', () => new Snapshotter(options, 'snapshots')],
          ['snapshot', () => new Snapshotter(options, 'contents')],
        ] as const)
      : []),
    ...(can.has('GET_CAPACITY') && config.csiDriver?.storageCapacity === true
      ? [['provision', () => new CapacityReporter(options)] as const]
      : []),
  ];
}

/** Who may not see leases does not know of sidecars. */
function notAllowed(error: unknown): false {
  if (isStatus(error, 'Forbidden')) return false;
  throw error;
}
