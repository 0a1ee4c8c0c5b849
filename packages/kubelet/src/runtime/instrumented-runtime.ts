import type { Clock } from '@oarlock/primitives/clock';
import type { RuntimeDriver } from '@oarlock/spi/runtime';
import { Counter, Histogram, type Registry } from 'prom-client';

/** Upstream's metric label `operation_type` of each driver method. */
const operations: Readonly<Partial<Record<keyof RuntimeDriver, string>>> = {
  version: 'version',
  runPodSandbox: 'run_podsandbox',
  stopPodSandbox: 'stop_podsandbox',
  removePodSandbox: 'remove_podsandbox',
  podSandboxStatus: 'podsandbox_status',
  listPodSandbox: 'list_podsandbox',
  createContainer: 'create_container',
  startContainer: 'start_container',
  stopContainer: 'stop_container',
  removeContainer: 'remove_container',
  containerStatus: 'container_status',
  listContainers: 'list_containers',
  updateContainerResources: 'update_container',
  reopenContainerLog: 'reopen_container_log',
  execSync: 'exec_sync',
  portForward: 'port_forward',
  containerStats: 'container_stats',
  listContainerStats: 'list_container_stats',
  listImages: 'list_images',
  imageStatus: 'image_status',
  pullImage: 'pull_image',
  removeImage: 'remove_image',
  imageFsInfo: 'image_fs_info',
};

/** Upstream's buckets: 14 buckets from 5 ms, each 2.5 times the previous one. Seconds. */
const buckets = Array.from({ length: 14 }, (_, step) => 0.005 * 2.5 ** step);

/** Metrics of the number, duration and errors of runtime operations. Exec and attach sessions are not measured. */
export class RuntimeOperationMetrics {
  readonly #clock: Clock;
  readonly #count: Counter<'operation_type'>;
  readonly #failed: Counter<'operation_type'>;
  readonly #took: Histogram<'operation_type'>;
  readonly #sandboxFailed: Counter<'runtime_handler'>;
  readonly #sandboxTook: Histogram<'runtime_handler'>;

  constructor(registry: Registry, clock: Clock) {
    const [registers, labelNames] = [[registry], ['operation_type'] as const];
    const named = (name: string, help: string) => ({ name: `kubelet_runtime_operations_${name}`, help, registers, labelNames });
    this.#clock = clock;
    this.#count = new Counter(named('total', 'Cumulative number of runtime operations by operation type.'));
    this.#failed = new Counter(named('errors_total', 'Cumulative number of runtime operation errors by operation type.'));
    this.#took = new Histogram({
      ...named('duration_seconds', 'Duration in seconds of runtime operations. Broken down by operation type.'),
      buckets,
    });
    const ofSandboxes = (name: string, help: string) => ({
      ...{ name: `kubelet_run_podsandbox_${name}`, help, registers },
      labelNames: ['runtime_handler'] as const,
    });
    this.#sandboxFailed = new Counter(
      ofSandboxes('errors_total', 'Cumulative number of the run_podsandbox operation errors by RuntimeClass.Handler.'),
    );
    this.#sandboxTook = new Histogram(
      ofSandboxes('duration_seconds', 'Duration in seconds of the run_podsandbox operations. Broken down by RuntimeClass.Handler.'),
    );
  }

  /** Returns a driver that measures its calls. Returns a simulated driver unchanged. */
  instrument(driver: RuntimeDriver): RuntimeDriver {
    if (driver.traits.simulated) return driver;
    const methods = new Map<PropertyKey, unknown>();
    const methodOf = (key: PropertyKey, method: (...args: never[]) => unknown) => {
      const operation = operations[key as keyof RuntimeDriver];
      const bound = method.bind(driver) as (...args: unknown[]) => Promise<unknown>;
      if (operation === undefined) return bound;
      if (key !== ('runPodSandbox' satisfies keyof RuntimeDriver)) return (...args: unknown[]) => this.#observe(operation, bound(...args));
      return (...args: unknown[]) => this.#observeSandbox(String(args[1]), this.#observe(operation, bound(...args)));
    };
    return new Proxy(driver, {
      get: (target, key) => {
        const value: unknown = Reflect.get(target, key, target);
        if (typeof value !== 'function') return value;
        const wrapped = methods.get(key) ?? methodOf(key, value as (...args: never[]) => unknown);
        methods.set(key, wrapped);
        return wrapped;
      },
    });
  }

  async #observe<T>(operation: string, call: Promise<T>): Promise<T> {
    const labels = { operation_type: operation };
    const from = this.#clock.monotonic();
    this.#count.inc(labels);
    try {
      return await call;
    } catch (error) {
      this.#failed.inc(labels);
      throw error;
    } finally {
      this.#took.observe(labels, (this.#clock.monotonic() - from) / 1000);
    }
  }

  /** Observes the creation of a sandbox by the handler of the pod's RuntimeClass; '' without one. */
  async #observeSandbox<T>(handler: string, call: Promise<T>): Promise<T> {
    const labels = { runtime_handler: handler };
    const from = this.#clock.monotonic();
    try {
      return await call;
    } catch (error) {
      this.#sandboxFailed.inc(labels);
      throw error;
    } finally {
      this.#sandboxTook.observe(labels, (this.#clock.monotonic() - from) / 1000);
    }
  }
}
