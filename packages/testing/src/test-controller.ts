import type { KubeObject } from '@oarlock/api/object';
import type { Resource } from '@oarlock/api/resource';
import { ControllerRunner } from '@oarlock/controllers/manager/controller-runner';
import type { Lifecycle, Plugin } from '@oarlock/kernel/plugin';
import { noTracer } from '@oarlock/kernel/tracing';
import { silentLogger, type Logger } from '@oarlock/primitives/logger';
import { Registry } from 'prom-client';
import { controllerOfPlugin, type ControllerOptions, type RecordedEvent } from './controller-contract.ts';
import { FakeClock } from './fake-clock.ts';
import { memoryApi, type MemoryApi } from './memory-api.ts';

export interface ControllerTestOptions extends Omit<ControllerOptions, 'recordedEvents'> {
  /** Stores the objects that exist before the controller starts: `(api) => api.seed(configMaps, ...)`. */
  seed?(api: MemoryApi): void;
}

/** A controller that runs over the memory API, with a clock that only the test advances. */
export interface ControllerTest extends AsyncDisposable {
  readonly api: MemoryApi;
  readonly clock: FakeClock;
  /** The events that the controller recorded. */
  readonly events: readonly RecordedEvent[];
  /** The errors that reconciles threw, and that the controller logged. */
  readonly errors: readonly unknown[];
  /** Creates an object as a user, and resolves when the controller has reconciled it. Returns the object after that. */
  create<T extends KubeObject>(resource: Resource<T>, object: T): Promise<T>;
  /** Resolves when the controller has nothing to do at the current time. */
  settle(): Promise<void>;
  /** Advances the time: retries and `requeueAfterMs` that become due are reconciled. */
  advance(ms: number): Promise<void>;
}

/**
 * Runs the controller of a plugin with the queue, the workers and the back-off of the controller manager.
 *
 * ```ts
 * await using test = await testController(plugin);
 * const website = await test.create(Website.resource, Website.object({ namespace: 'default', name: 'shop' }, { title: 'Shop' }));
 * expect(website.status?.conditions?.[0]?.status).toBe('True');
 * ```
 */
export async function testController(plugin: Plugin, { seed, ...options }: ControllerTestOptions = {}): Promise<ControllerTest> {
  const clock = new FakeClock();
  const api = memoryApi({ clock });
  seed?.(api);
  const events: RecordedEvent[] = [];
  const errors: unknown[] = [];
  const client = api.client(plugin.id);
  const controller = controllerOfPlugin(plugin, { client, informers: api.informers, clock }, { ...options, recordedEvents: events });
  const runner = new ControllerRunner({ controller, client, clock, log: errorLogger(errors), tracer: noTracer, metrics: new Registry() });
  const abort = new AbortController();
  const { start, stop } = controller as Lifecycle;
  await start?.call(controller, abort.signal);
  const run = runner.run(abort.signal);
  await clock.settle();
  return {
    api,
    clock,
    events,
    errors,
    async create(resource, object) {
      const { metadata = {} } = await api.client('user').create(resource, object);
      await clock.settle();
      const { namespace, name = '' } = metadata;
      return await api.client('user').get(resource, { ...(namespace !== undefined && { namespace }), name });
    },
    settle: () => clock.settle(),
    advance: (ms) => clock.advance(ms),
    async [Symbol.asyncDispose]() {
      abort.abort();
      await run;
      await stop?.call(controller);
      await api.stop();
    },
  };
}

/** A logger that keeps the errors of log lines and drops everything else. */
function errorLogger(errors: unknown[]): Logger {
  const keep: Logger['warn'] = (fields) => {
    if (typeof fields === 'object' && fields !== null && 'err' in fields) errors.push(fields.err);
  };
  const logger: Logger = { ...silentLogger, debug: keep, warn: keep, error: keep, child: () => logger };
  return logger;
}
