import { systemClock } from '@oarlock/primitives/clock';
import type { RuntimeDriver } from '@oarlock/spi/runtime';
import { Registry } from 'prom-client';
import { describe, expect, it } from 'vitest';
import { RuntimeOperationMetrics } from '../../src/runtime/instrumented-runtime.ts';

/** A driver with a private field, which a proxy must not break. */
class Driver {
  readonly traits: { readonly simulated?: boolean };
  readonly #name = 'test';
  constructor(traits: { readonly simulated?: boolean } = {}) {
    this.traits = traits;
  }
  version() {
    return Promise.resolve({ name: this.#name, version: '1', apiVersion: 'v1' });
  }
  runPodSandbox(_config: unknown, handler: string) {
    return handler === 'gone' ? Promise.reject(new Error('no such handler')) : Promise.resolve('sandbox');
  }
  removeImage(image: string) {
    return Promise.reject(new Error(`${image} is in use`));
  }
  start() {
    return this.#name;
  }
}
const asDriver = (driver: Driver) => driver as unknown as RuntimeDriver & { start(): string };

describe('RuntimeOperationMetrics', () => {
  it('counts operations and errors and does not change their results', async () => {
    const registry = new Registry();
    const driver = new RuntimeOperationMetrics(registry, systemClock).instrument(asDriver(new Driver())) as ReturnType<typeof asDriver>;
    expect(await driver.version()).toMatchObject({ name: 'test' });
    await expect(driver.removeImage('web')).rejects.toThrow('web is in use');
    expect(driver.start()).toBe('test');
    expect(driver.features).toBeUndefined();
    const text = await registry.metrics();
    for (const line of [
      'kubelet_runtime_operations_total{operation_type="version"} 1',
      'kubelet_runtime_operations_total{operation_type="remove_image"} 1',
      'kubelet_runtime_operations_errors_total{operation_type="remove_image"} 1',
      'kubelet_runtime_operations_duration_seconds_count{operation_type="version"} 1',
    ])
      expect(text).toContain(line);
    expect(text).not.toContain('errors_total{operation_type="version"}');
  });

  it('measures sandboxes by the handler of the RuntimeClass', async () => {
    const registry = new Registry();
    const driver = new RuntimeOperationMetrics(registry, systemClock).instrument(asDriver(new Driver()));
    await driver.runPodSandbox({} as never, '');
    await expect(driver.runPodSandbox({} as never, 'gone')).rejects.toThrow('no such handler');
    const text = await registry.metrics();
    for (const line of [
      'kubelet_run_podsandbox_duration_seconds_count{runtime_handler=""} 1',
      'kubelet_run_podsandbox_duration_seconds_count{runtime_handler="gone"} 1',
      'kubelet_run_podsandbox_errors_total{runtime_handler="gone"} 1',
      'kubelet_runtime_operations_total{operation_type="run_podsandbox"} 2',
    ])
      expect(text).toContain(line);
    expect(text).not.toContain('kubelet_run_podsandbox_errors_total{runtime_handler=""}');
  });

  it('does not measure a simulated runtime', () => {
    const driver = asDriver(new Driver({ simulated: true }));
    expect(new RuntimeOperationMetrics(new Registry(), systemClock).instrument(driver)).toBe(driver);
  });
});
