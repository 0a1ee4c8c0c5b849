import type { Clock } from '@oarlock/kernel/clock';
import type { RuntimeDriver } from '@oarlock/spi/runtime';
import { Counter, Histogram, type Registry } from 'prom-client';

/** Upstream's names of operations, by the driver's methods. */
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

/** Seconds, as upstream's: 5 ms, and two and a half times as much in each of fourteen steps. */
const buckets = Array.from({ length: 14 }, (_, step) => 0.005 * 2.5 ** step);

/** How often kubelets asked runtimes for what, how long it took, and how often it failed. Sessions of exec and attach are not among it. */
export class RuntimeOperations {
  readonly #clock: Clock;
  readonly #count: Counter<'operation_type'>;
  readonly #failed: Counter<'operation_type'>;
  readonly #took: Histogram<'operation_type'>;

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
  }

  /** The same driver; what is asked of it is counted. Simulated ones are left alone: they are many, and measure nothing. */
  measured(driver: RuntimeDriver): RuntimeDriver {
    if (driver.traits.simulated) return driver;
    const known = new Map<PropertyKey, unknown>();
    const methodOf = (key: PropertyKey, method: (...given: never[]) => unknown) => {
      const operation = operations[key as keyof RuntimeDriver];
      const bound = method.bind(driver) as (...given: unknown[]) => Promise<unknown>;
      return operation === undefined ? bound : (...given: unknown[]) => this.#follow(operation, bound(...given));
    };
    return new Proxy(driver, {
      get: (target, key) => {
        const value: unknown = Reflect.get(target, key, target);
        if (typeof value !== 'function') return value;
        const wrapped = known.get(key) ?? methodOf(key, value as (...given: never[]) => unknown);
        known.set(key, wrapped);
        return wrapped;
      },
    });
  }

  async #follow<T>(operation: string, call: Promise<T>): Promise<T> {
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
}
