import type { Resource } from '@oarlock/api/resource';
import type { Logger } from '@oarlock/kernel/logger';
import type { Watch } from '@oarlock/spi/controller';
import type { ServedResources } from '@oarlock/client/served-resources';

/** For kinds that a server has on request only: takes `watch` up when it has `resource`. Returns what ends that, for `Controller.follow`. */
export function whenServed(
  served: ServedResources,
  resource: Resource,
  log: Logger,
  watch: () => Watch,
  add: (watch: Watch) => () => void,
): () => void {
  let ended = false;
  let off: (() => void) | undefined;
  served.has(resource).then(
    (has) => {
      if (has && !ended) off = add(watch());
    },
    (error: unknown) =>
      log.warn({ err: error, resource: resource.resource }, 'the server does not say whether it has a kind: it is left alone'),
  );
  return () => {
    ended = true;
    off?.();
  };
}
