import { leases } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import { GroupSnapshotter } from './group-snapshots/group-snapshotter.ts';
import { groupSnapshots } from './snapshot-api/group-kinds.ts';
import { Attacher } from './sidecars/attacher.ts';
import { CapacityReporter } from './sidecars/capacity-reporter.ts';
import { HealthMonitor } from './sidecars/health-monitor.ts';
import { LeaseYieldingSidecar, type SidecarRole } from './sidecars/lease-yielding-sidecar.ts';
import { Modifier } from './sidecars/modifier.ts';
import type { CsiDriver } from './driver/csi-driver.ts';
import type { NodeExpansion } from './node/node-expansion.ts';
import { Provisioner } from './sidecars/provisioner.ts';
import { Resizer } from './sidecars/resizer.ts';
import { Snapshotter } from './snapshots/snapshotter.ts';
import type { Staging } from './node/staging.ts';
import type { Sidecar, SidecarOptions } from './sidecars/sidecar.ts';

export interface SidecarsOptions extends SidecarOptions {
  readonly staging: Staging;
  readonly expansion: NodeExpansion;
}

/**
 * Starts the work of all CSI sidecars that the driver has capabilities for. While a Kubernetes sidecar holds the Lease for a part of the work, that
 * sidecar does it. A driver that the plugin runs has no other sidecars. @throws StatusError if a request to the API server fails
 */
export async function startSidecars(options: SidecarsOptions): Promise<readonly Sidecar[]> {
  return startAll([...sidecarFactories(options), ...snapshotController(options)], options);
}

/**
 * Starts the work that a cluster does for a driver with sidecars of its own: that of the snapshot-controller, which belongs to the cluster, while
 * external-snapshotter belongs to the driver. @throws StatusError if a request to the API server fails
 */
export async function startClusterControllers(options: SidecarOptions): Promise<readonly Sidecar[]> {
  return startAll(snapshotController(options), options);
}

/** Returns true if the driver may take snapshots. The controller service of a driver with its own sidecars may run on another node. */
export const maySnapshot = ({ controllerCapabilities: capabilities }: CsiDriver): boolean =>
  capabilities.size === 0 || capabilities.has('CREATE_DELETE_SNAPSHOT');

type SidecarFactory = readonly [SidecarRole, () => Sidecar];

const snapshotController = (options: SidecarOptions): readonly SidecarFactory[] =>
  maySnapshot(options.driver) ? [['bind-snapshots', () => new Snapshotter(options, 'snapshots')]] : [];

/** What the controllers of groups of snapshots are started with. */
export interface GroupControllersOptions extends SidecarOptions {
  readonly provisions: boolean;
  /** Creates the CustomResourceDefinitions of groups, and waits until they are served. */
  define(): Promise<void>;
}

/**
 * Starts the work of the snapshot-controller and, with `provisions`, of external-snapshotter for groups of snapshots. A driver with its own sidecars,
 * whose controller service may run on another node, has them only if the kinds are served already. @throws StatusError if a request fails
 */
export async function startGroupControllers({ define, provisions, ...options }: GroupControllersOptions): Promise<readonly Sidecar[]> {
  const { driver, client } = options;
  const canGroup = driver.groupCapabilities.has('CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT');
  if (!canGroup && (provisions || driver.controllerCapabilities.size > 0)) return [];
  if (canGroup) await define();
  const served = await client.list(groupSnapshots, { limit: 1 }).then(
    () => true,
    (error: unknown) => {
      // a node that joined may not read the kinds
      if (isStatus(error, 'Forbidden', 'NotFound')) return false;
      throw error;
    },
  );
  if (!served) return [];
  const factories: readonly SidecarFactory[] = [
    ['bind-snapshots', () => new GroupSnapshotter(options, 'groups')],
    ...(provisions ? [['snapshot', () => new GroupSnapshotter(options, 'contents')] as const] : []),
  ];
  return startAll(factories, options);
}

async function startAll(
  factories: readonly SidecarFactory[],
  { driver, client, informers, clock, log }: SidecarOptions,
): Promise<readonly Sidecar[]> {
  if (factories.length === 0) return [];
  const yields = !('run' in driver.config) && (await client.list(leases, { limit: 1 }).then(() => true, falseIfForbidden));
  const sidecars = factories.map(([work, make]) =>
    yields ? new LeaseYieldingSidecar({ work, driver: driver.name, informers, clock, log, make }) : make(),
  );
  for (const sidecar of sidecars) sidecar.start();
  return sidecars;
}

function sidecarFactories(options: SidecarsOptions): readonly SidecarFactory[] {
  const { controllerCapabilities: capabilities } = options.driver;
  return [
    ['attach', () => new Attacher(options)],
    ...(capabilities.has('CREATE_DELETE_VOLUME') ? [['provision', () => new Provisioner(options)] as const] : []),
    ['resize', () => new Resizer(options)],
    ...(capabilities.has('MODIFY_VOLUME') ? [['resize', () => new Modifier(options)] as const] : []),
    ...(capabilities.has('CREATE_DELETE_SNAPSHOT') ? [['snapshot', () => new Snapshotter(options, 'contents')] as const] : []),
    ...(capabilities.has('CONTROLLER_VOLUME_CONDITION') && (capabilities.has('LIST_VOLUMES') || capabilities.has('GET_VOLUME'))
      ? [['monitor', () => new HealthMonitor(options)] as const]
      : []),
    ...(capabilities.has('GET_CAPACITY') ? [['provision', () => new CapacityReporter(options)] as const] : []),
  ];
}

/** Returns false after a Forbidden error: a node that may not read Leases cannot detect external sidecars. @throws any other error */
function falseIfForbidden(error: unknown): false {
  if (isStatus(error, 'Forbidden')) return false;
  throw error;
}
