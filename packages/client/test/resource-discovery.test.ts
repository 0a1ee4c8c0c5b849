import { setImmediate as turn } from 'node:timers/promises';
import type { Resource } from '@oarlock/api/resource';
import { customResourceDefinitions, pods } from '@oarlock/api/resources';
import { failure } from '@oarlock/api/status';
import { ResourceDiscovery } from '@oarlock/client/resource-discovery';
import type { Client } from '@oarlock/spi/client';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { expect, it } from 'vitest';

const widgets = { ...pods, group: 'example.com', resource: 'widgets', kind: 'Widget' } as Resource;
const gadgets = { ...widgets, resource: 'gadgets' } as Resource;

/** An API server whose definitions a test changes. */
class Server {
  readonly names: string[] = [];
  readonly requests: string[] = [];
  readonly #watchers = new Set<() => void>();
  permitsWatch = true;

  readonly client = {
    raw: (_method: string, path: string) => {
      this.requests.push(path);
      return Promise.resolve({ resources: this.names.map((name) => ({ name })) });
    },
    watch: (resource: Resource, { signal }: { readonly signal: AbortSignal }) => this.#watch(resource, signal),
  } as unknown as Client;

  get watchers(): number {
    return this.#watchers.size;
  }

  emit(): void {
    for (const wake of [...this.#watchers]) wake();
  }

  async *#watch({ resource }: Resource, signal: AbortSignal) {
    if (!this.permitsWatch) throw failure('Forbidden', `cannot watch ${resource}`);
    for (;;) {
      await new Promise<void>((resolve) => {
        const wake = () => {
          if (resource === customResourceDefinitions.resource) this.#watchers.delete(wake);
          signal.removeEventListener('abort', wake);
          resolve();
        };
        if (resource === customResourceDefinitions.resource) this.#watchers.add(wake);
        signal.addEventListener('abort', wake, { once: true });
      });
      if (signal.aborted) return;
      yield [{ type: 'MODIFIED', object: {} }];
    }
  }
}

const open = () => {
  const server = new Server();
  const clock = new FakeClock();
  const discovery = new ResourceDiscovery(server.client, clock);
  const served = (resource: Resource, signal = new AbortController().signal) => {
    const state = { done: false };
    const waiting = discovery.whenServed([resource], signal).then(() => {
      state.done = true;
    });
    return { state, waiting };
  };
  return { server, clock, served };
};
const settle = async () => {
  for (let index = 0; index < 20; index++) await turn();
};

it('finds a resource when its definition changes, without waiting for time to pass', async () => {
  const { server, served } = open();
  const { waiting } = served(widgets);
  await settle();
  server.names.push('widgets');
  server.emit();
  await waiting;
  expect(server.watchers).toBe(0);
});

it('repeats the request soon after a change, because the server may add the resource to its discovery later', async () => {
  const { server, clock, served } = open();
  const { state, waiting } = served(widgets);
  await settle();
  server.emit();
  await settle();
  expect(state.done).toBe(false);
  server.names.push('widgets');
  await clock.advance(100);
  await waiting;
});

it('watches once for all that wait, and fetches a group version once for each change', async () => {
  const { server, served } = open();
  const all = [served(widgets), served(gadgets)];
  await settle();
  expect(server.watchers).toBe(1);
  expect(server.requests).toEqual(['/apis/example.com/v1']);
  server.names.push('widgets', 'gadgets');
  server.emit();
  await Promise.all(all.map(({ waiting }) => waiting));
  expect(server.requests).toEqual(['/apis/example.com/v1', '/apis/example.com/v1']);
});

it('repeats the request on an interval if definitions cannot be watched', async () => {
  const { server, clock, served } = open();
  server.permitsWatch = false;
  const { state, waiting } = served(widgets);
  await settle();
  server.names.push('widgets');
  await clock.advance(29_000);
  expect(state.done).toBe(false);
  await clock.advance(1_000);
  await waiting;
});

it('stops waiting and watching when the signal aborts', async () => {
  const { server, served } = open();
  const abort = new AbortController();
  const { waiting } = served(widgets, abort.signal);
  await settle();
  abort.abort(new Error('over'));
  await expect(waiting).rejects.toThrow('over');
  expect(server.watchers).toBe(0);
});
