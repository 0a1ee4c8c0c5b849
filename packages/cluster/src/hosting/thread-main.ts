import { parentPort, workerData } from 'node:worker_threads';
import { EventWriter } from '@oarlock/client/events';
import { SharedInformers } from '@oarlock/client/informers';
import { deepFreeze } from '@oarlock/api/object';
import { systemClock } from '@oarlock/kernel/clock';
import type { Logger } from '@oarlock/kernel/logger';
import type { Plugin } from '@oarlock/kernel/plugin';
import { PluginHost } from '@oarlock/kernel/plugin-host';
import type { AdmissionPlugin, AdmissionRequest } from '@oarlock/spi/admission';
import { Client, Events, Informers } from '@oarlock/spi/client';
import { Cluster } from '@oarlock/spi/cluster';
import { ThreadClient } from './thread-client.ts';
import { carried, type FromThread, type Result, type ThreadData, type ToThread } from './thread-protocol.ts';

/** The other end of `PluginThread`: one plugin in a thread of its own. */
const { module, name, config, dataDir, facts, running } = workerData as ThreadData;
const port = parentPort;
if (port === null) throw new Error('this runs as a thread');
const send = (message: FromThread): void => port.postMessage(message);

const logger = (bound: Record<string, unknown>): Logger => {
  const at =
    (level: 'debug' | 'info' | 'warn' | 'error') =>
    (fields: Record<string, unknown>, text: string): void => {
      const plain = Object.entries({ ...bound, ...fields }).map(([key, value]) => [key, value instanceof Error ? carried(value) : value]);
      send({ type: 'log', level, fields: JSON.parse(JSON.stringify(Object.fromEntries(plain))) as Record<string, unknown>, text });
    };
  return { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error'), child: (more) => logger({ ...bound, ...more }) };
};

const log = logger({});
const reach = new ThreadClient(send);
const client = reach.client();
const informers = new SharedInformers({ client, log, clock: systemClock });
const events = new EventWriter({ client, log, clock: systemClock, random: Math.random });
const host = new PluginHost({ log, dataDir })
  .provide(Client, client)
  .provide(Informers, informers)
  .provide(Events, events)
  .provide(Cluster, facts);

async function answer(id: number, instance: object, method: string, args: readonly unknown[]): Promise<Result> {
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
    const given = (instance as Readonly<Record<string, (...list: unknown[]) => unknown>>)[method]?.(request, ...rest);
    Atomics.store(running, 0, 0);
    const value = await given;
    const same = method === 'mutate' && value === (first as AdmissionRequest).object;
    return { ...(same ? { same } : { value }), warnings, annotations };
  } catch (error) {
    Atomics.store(running, 0, 0);
    return { error: carried(error), warnings, annotations };
  }
}

const methods = ['mutate', 'validate', 'authenticate', 'authorize', 'rulesFor'];
try {
  const { default: plugin } = (await import(module)) as { readonly default: Plugin };
  host.place({ plugin, name, config });
  const held: unknown = host.get(plugin.provides);
  const instance = (Array.isArray(held) ? held[0] : held) as object;
  port.on('message', (message: ToThread) => {
    if (message.type === 'call') {
      const { id } = message;
      void answer(id, instance, message.method, message.args).then((result) => {
        try {
          send({ type: 'result', id, result });
        } catch (error) {
          send({ type: 'result', id, result: { error: carried(error), warnings: [], annotations: [] } });
        }
      });
    } else if (message.type === 'ping') send({ type: 'pong' });
    else if (message.type === 'stop') {
      void host.stop().then(
        () => send({ type: 'stopped' }),
        (error: unknown) => send({ type: 'refused', error: carried(error) }),
      );
    } else reach.take(message);
  });
  informers.start();
  await host.start();
  const has = methods.filter((method) => method in instance);
  send({ type: 'ready', methods: has, matches: (instance as Partial<AdmissionPlugin>).matches ?? [] });
} catch (error) {
  send({ type: 'refused', error: carried(error) });
}
