import { EventBroadcaster } from '@oarlock/client/events/event-broadcaster';
import { SharedInformerFactory } from '@oarlock/client/cache/shared-informer-factory';
import { deepFreeze } from '@oarlock/api/object';
import { systemClock } from '@oarlock/primitives/clock';
import type { Logger } from '@oarlock/primitives/logger';
import type { Plugin } from '@oarlock/kernel/plugin';
import { PluginHost } from '@oarlock/kernel/plugin-host';
import type { AdmissionPlugin, AdmissionRequest } from '@oarlock/spi/admission';
import type { Authorizer } from '@oarlock/spi/authz';
import { Cloud, type CloudProvider } from '@oarlock/spi/cloud';
import { Controllers, type Controller } from '@oarlock/spi/controller';
import { Client, Events, Informers } from '@oarlock/spi/client';
import { Cluster } from '@oarlock/spi/cluster';
import { flatCloud } from './thread-cloud.ts';
import { ThreadController } from './thread-controller.ts';
import { openThreadPort } from './thread-port.ts';
import { ThreadClient } from './thread-client.ts';
import { serializeError, type FromThreadMessage, type CallResult, type ThreadData, type ToThreadMessage } from './thread-protocol.ts';

/** The connection of a thread to the `PluginThread` that started it. */
interface ThreadPort {
  send(message: FromThreadMessage): void;
  /** The id of the call that runs synchronously; 0 if none. The main thread reads it to find a call that blocks the thread. */
  readonly running: ThreadData['running'];
}

const threadLogger = (bound: Record<string, unknown>, send: ThreadPort['send']): Logger => {
  const at =
    (level: 'debug' | 'info' | 'warn' | 'error') =>
    (fields: Record<string, unknown>, text: string): void => {
      const plain = Object.entries({ ...bound, ...fields }).map(([key, value]) => [
        key,
        value instanceof Error ? serializeError(value) : value,
      ]);
      send({ type: 'log', level, fields: JSON.parse(JSON.stringify(Object.fromEntries(plain))) as Record<string, unknown>, text });
    };
  return {
    debug: at('debug'),
    info: at('info'),
    warn: at('warn'),
    error: at('error'),
    child: (more) => threadLogger({ ...bound, ...more }, send),
  };
};

type PluginCall = Extract<ToThreadMessage, { readonly type: 'call' }>;

async function answer(instance: object, { id, method, args }: PluginCall, { running }: ThreadPort): Promise<CallResult> {
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

const methods = ['mutate', 'validate', 'authenticate', 'authorize', 'rulesFor', 'record', 'reconcile'];

/**
 * Runs the plugin of a thread or process that `PluginThread` started. `load` imports the plugin's module.
 * @throws Error in another thread or process
 */
export async function runPluginThread(load: (module: string) => Promise<unknown>): Promise<void> {
  const port = await openThreadPort();
  const { module, name, config, dataDir, facts, running } = port.data;
  const send = port.send;
  const log = threadLogger({}, send);
  const threadClient = new ThreadClient(send);
  const client = threadClient.client();
  const informers = new SharedInformerFactory({ client, log, clock: systemClock });
  const host = new PluginHost({ log, dataDir })
    .provide(Client, client)
    .provide(Informers, informers)
    .provide(Events, new EventBroadcaster({ client, log, clock: systemClock, random: Math.random }))
    .provide(Cluster, facts);
  try {
    process.setSourceMapsEnabled(true); // stack traces name lines of the source
    const { default: plugin } = (await load(module)) as { readonly default: Plugin };
    host.add({ plugin, name, config });
    const slotValue: unknown = host.get(plugin.provides);
    const created = (Array.isArray(slotValue) ? slotValue[0] : slotValue) as object;
    const controller =
      plugin.provides.token === Controllers.token ? new ThreadController(created as Controller, { threadClient, log, send }) : undefined;
    const stopped = new AbortController();
    const cloud = plugin.provides.token === Cloud.token ? (created as CloudProvider) : undefined;
    const flat = cloud && flatCloud(cloud, plugin.declares, stopped.signal);
    const instance = controller ?? flat ?? created;
    port.listen((message) => {
      if (message.type === 'subscribe') controller?.subscribe();
      else if (message.type === 'unsubscribe') controller?.unsubscribe();
      else if (message.type === 'call') void handleCall(instance, message, { send, running });
      else if (message.type === 'ping') send({ type: 'pong' });
      else if (message.type === 'stop') {
        stopped.abort();
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
    const loadBalancerClass = cloud?.loadBalancers?.class;
    send({
      type: 'ready',
      methods: flat === undefined ? methods.filter((method) => method in instance) : Object.keys(flat),
      matches: (instance as Partial<AdmissionPlugin>).matches ?? [],
      ...(loadBalancerClass !== undefined && { loadBalancerClass }),
    });
  } catch (error) {
    send({ type: 'refused', error: serializeError(error) });
  }
}

async function handleCall(instance: object, call: PluginCall, port: ThreadPort): Promise<void> {
  const { id } = call;
  const result = await answer(instance, call, port);
  try {
    port.send({ type: 'result', id, result });
  } catch (error) {
    // the result cannot be cloned
    port.send({ type: 'result', id, result: { error: serializeError(error), warnings: [], annotations: [] } });
  }
}
