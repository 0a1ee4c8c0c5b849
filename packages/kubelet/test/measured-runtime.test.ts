import { systemClock } from '@oarlock/kernel/clock';
import type { RuntimeDriver } from '@oarlock/spi/runtime';
import { Registry } from 'prom-client';
import { describe, expect, it } from 'vitest';
import { RuntimeOperations } from '../src/measured-runtime.ts';

/** Keeps to itself what it is, as real drivers do. */
class Driver {
  readonly traits: { readonly simulated?: boolean };
  readonly #name = 'test';
  constructor(traits: { readonly simulated?: boolean } = {}) {
    this.traits = traits;
  }
  version() {
    return Promise.resolve({ name: this.#name, version: '1', apiVersion: 'v1' });
  }
  removeImage(image: string) {
    return Promise.reject(new Error(`${image} is in use`));
  }
  start() {
    return this.#name;
  }
}
const asDriver = (driver: Driver) => driver as unknown as RuntimeDriver & { start(): string };

describe('operations of a runtime', () => {
  it('are counted with what they say left as it is', async () => {
    const registry = new Registry();
    const driver = new RuntimeOperations(registry, systemClock).measured(asDriver(new Driver())) as ReturnType<typeof asDriver>;
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

  it('of a simulated runtime are not', () => {
    const driver = asDriver(new Driver({ simulated: true }));
    expect(new RuntimeOperations(new Registry(), systemClock).measured(driver)).toBe(driver);
  });
});
