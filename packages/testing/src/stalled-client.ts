import type { Client } from '@oarlock/spi/client';

export interface StalledClient {
  readonly client: Client;
  /** The watches that are open say nothing more, as those of a server that is cut off from its store. What is opened later does. */
  stallWatches(): void;
}

/** A client that may be left behind. */
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
