import type { Client } from '@oarlock/spi/client';

export interface StalledClient {
  readonly client: Client;
  /**
   * Stops the delivery of events on all open watches, as a server that lost its connection to the storage does. Watches that are opened later are not
   * affected.
   */
  stallWatches(): void;
}

/** Wraps a client whose watches can be stalled. */
export function stalledClient(inner: Client): StalledClient {
  let [opened, deaf] = [0, 0];
  const watch: Client['watch'] = async function* (resource, options) {
    const number = ++opened;
    for await (const batch of inner.watch(resource, options)) if (number > deaf) yield batch;
  };
  const client = new Proxy(inner, {
    get(target, name) {
      if (name === 'watch') return watch;
      const member: unknown = Reflect.get(target, name, target);
      return typeof member === 'function' ? (member.bind(target) as unknown) : member;
    },
  });
  return {
    client,
    stallWatches() {
      deaf = opened;
    },
  };
}
