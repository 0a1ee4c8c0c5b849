import type { Resource } from '@oarlock/api/resource';
import type { Logger } from '@oarlock/primitives/logger';
import type { ControllerWatch } from '@oarlock/spi/controller';
import type { ResourceDiscovery } from '@oarlock/client/resource-discovery';

/**
 * Adds a watch of an optional resource if the API server serves the resource. Returns a function that stops the watch, for
 * `Controller.addDynamicWatches`.
 */
export function watchWhenServed(
  discovery: ResourceDiscovery,
  resource: Resource,
  {
    log,
    createWatch,
    add,
  }: { readonly log: Logger; readonly createWatch: () => ControllerWatch; readonly add: (watch: ControllerWatch) => () => void },
): () => void {
  let stopped = false;
  let removeWatch: (() => void) | undefined;
  discovery.has(resource).then(
    (has) => {
      if (has && !stopped) removeWatch = add(createWatch());
    },
    (error: unknown) =>
      log.warn({ err: error, resource: resource.resource }, 'cannot determine whether the API server serves a resource; not watching it'),
  );
  return () => {
    stopped = true;
    removeWatch?.();
  };
}
