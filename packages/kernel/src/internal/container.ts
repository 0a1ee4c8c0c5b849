import 'reflect-metadata';
import { container as root, instanceCachingFactory, type DependencyContainer } from 'tsyringe';

/**
 * A dependency injection container; this is the only file that imports tsyringe. Tokens are explicit symbols, because esbuild-based loaders
 * drop the decorator metadata that class tokens depend on.
 */
export class Container {
  readonly #inner: DependencyContainer = root.createChildContainer();

  registerValue(token: symbol, value: unknown): void {
    this.#inner.register(token, { useValue: value });
  }

  /**
   * Registers a factory. The factory runs at the first resolution, and the container keeps the result. Several factories may share a token;
   * `resolveAll` returns the result of each.
   */
  registerFactory(token: symbol, create: () => unknown): void {
    this.#inner.register(token, { useFactory: instanceCachingFactory(create) });
  }

  has(token: symbol): boolean {
    return this.#inner.isRegistered(token);
  }
  resolve(token: symbol): unknown {
    return this.#inner.resolve(token);
  }
  resolveAll(token: symbol): unknown[] {
    return this.has(token) ? this.#inner.resolveAll(token) : [];
  }
}
