import { parentPort, workerData } from 'node:worker_threads';
import { EventBroadcaster } from '@oarlock/client/events/event-broadcaster';
import { SharedInformerFactory } from '@oarlock/client/cache/shared-informer-factory';
import { deepFreeze } from '@oarlock/api/object';
import { systemClock } from '@oarlock/primitives/clock';
import type { Logger } from '@oarlock/primitives/logger';
import type { Plugin } from '@oarlock/kernel/plugin';
import { PluginHost } from '@oarlock/kernel/plugin-host';
import type { AdmissionPlugin, AdmissionRequest } from '@oarlock/spi/admission';
import type { Authorizer } from '@oarlock/spi/authz';
import { Client, Events, Informers } from '@oarlock/spi/client';
import { Cluster } from '@oarlock/spi/cluster';
import { ThreadClient } from './thread-client.ts';
import { serializeError, type FromThreadMessage, type CallResult, type ThreadData, type ToThreadMessage } from './thread-protocol.ts';

/** The program of a thread that `PluginThread` starts: it runs one plugin. */
const { module, name, config, dataDir, facts, running } = workerData as ThreadData;
const port = parentPort;
if (port === null) throw new Error('thread-main must run in a worker thread');
const send = (message: FromThreadMessage): void => port.postMessage(message);

const logger = (bound: Record<string, unknown>): Logger => {
  const at =
    (level: 'debug' | 'info' | 'warn' | 'error') =>
    (fields: Record<string, unknown>, text: string): void => {
      const plain = Object.entries({ ...bound, ...fields }).map(([key, value]) => [
        key,
        value instanceof Error ? serializeError(value) : value,
      ]);
      send({ type: 'log', level, fields: JSON.parse(JSON.stringify(Object.fromEntries(plain))) as Record<string, unknown>, text });
    };
  return { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error'), child: (more) => logger({ ...bound, ...more }) };
};

const log = logger({});
const threadClient = new ThreadClient(send);
const client = threadClient.client();
const informers = new SharedInformerFactory({ client, log, clock: systemClock });
const events = new EventBroadcaster({ client, log, clock: systemClock, random: Math.random });
const host = new PluginHost({ log, dataDir })
  .provide(Client, client)
  .provide(Informers, informers)
  .provide(Events, events)
  .provide(Cluster, facts);

async function answer(id: number, instance: object, method: string, args: readonly unknown[]): Promise<CallResult> {
  const warnings: string[] = [];
  const annotations: (readonly [string, string])[] = [];
  const [first, ...rest] = deepFreeze(args as unknown[]);
  const request =
    method === 'mutate' || method === 'validate'
      ? {
          ...(first as AdmissionRequest),
          warn: (message: string) => warnings.push(message),
          annotate: (key: string, value: string) => annotations.push([key, value]),
        }
      : first;
  try {
    Atomics.store(running, 0, id);
    const pending = (instance as Readonly<Record<string, (...list: unknown[]) => unknown>>)[method]?.(request, ...rest);
    Atomics.store(running, 0, 0);
    const value = await pending;
    const same = method === 'mutate' && value === (first as AdmissionRequest).object;
    return { ...(same ? { same } : { value }), warnings, annotations };
  } catch (error) {
    Atomics.store(running, 0, 0);
    return { error: serializeError(error), warnings, annotations };
  }
}

const methods = ['mutate', 'validate', 'authenticate', 'authorize', 'rulesFor'];
try {
  const { default: plugin } = (await import(module)) as { readonly default: Plugin };
  host.add({ plugin, name, config });
  const slotValue: unknown = host.get(plugin.provides);
  const instance = (Array.isArray(slotValue) ? slotValue[0] : slotValue) as object;
  port.on('message', (message: ToThreadMessage) => {
    if (message.type === 'call') {
      const { id } = message;
      void answer(id, instance, message.method, message.args).then((result) => {
        try {
          send({ type: 'result', id, result });
        } catch (error) {
          send({ type: 'result', id, result: { error: serializeError(error), warnings: [], annotations: [] } });
        }
      });
    } else if (message.type === 'ping') send({ type: 'pong' });
    else if (message.type === 'stop') {
      void host.stop().then(
        () => send({ type: 'stopped' }),
        (error: unknown) => send({ type: 'refused', error: serializeError(error) }),
      );
    } else threadClient.handleMessage(message);
  });
  informers.start();
  await host.start();
  const hook = (instance as Partial<Authorizer>).postStartHook;
  hook
    ?.run(new AbortController().signal)
    .catch((error: unknown) => log.error({ err: error, hook: hook.name }, 'the post-start hook failed'));
  const implemented = methods.filter((method) => method in instance);
  send({ type: 'ready', methods: implemented, matches: (instance as Partial<AdmissionPlugin>).matches ?? [] });
} catch (error) {
  send({ type: 'refused', error: serializeError(error) });
}
