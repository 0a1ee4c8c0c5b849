import { Attacher } from './attacher.ts';
import { CapacityReporter } from './capacity-reporter.ts';
import { Modifier } from './modifier.ts';
import type { NodeExpansion } from './node-expansion.ts';
import { Provisioner } from './provisioner.ts';
import { Resizer } from './resizer.ts';
import { Snapshotter } from './snapshotter.ts';
import type { Staging } from './staging.ts';
import type { Sidecar, SidecarOptions } from './sidecar.ts';

/** All that a driver can have done for it. What it cannot do itself nobody is there for. */
export function sidecars(options: SidecarOptions & { readonly staging: Staging; readonly expansion: NodeExpansion }): readonly Sidecar[] {
  const { controllerAbilities: can } = options.driver;
  return [
    new Attacher(options),
    ...(can.has('CREATE_DELETE_VOLUME') ? [new Provisioner(options)] : []),
    new Resizer(options),
    ...(can.has('MODIFY_VOLUME') ? [new Modifier(options)] : []),
    ...(can.has('CREATE_DELETE_SNAPSHOT') ? [new Snapshotter(options)] : []),
    ...(can.has('GET_CAPACITY') && options.driver.config.csiDriver?.storageCapacity === true ? [new CapacityReporter(options)] : []),
  ];
}
