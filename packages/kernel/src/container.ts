import 'reflect-metadata';
import { container as root, instanceCachingFactory, type DependencyContainer } from 'tsyringe';

/**
 * tsyringe, the only place that imports it. Tokens are explicit symbols: nothing depends on decorator metadata, which
 * esbuild-based loaders lose.
 */
export class Container {
  readonly #inner: DependencyContainer = root.createChildContainer();

  value(token: symbol, value: unknown): void {
    this.#inner.register(token, { useValue: value });
  }

  /** Runs `make` at the first resolution and keeps its result. Several factories may share a token: `all` returns each. */
  factory(token: symbol, make: () => unknown): void {
    this.#inner.register(token, { useFactory: instanceCachingFactory(make) });
  }

  has(token: symbol): boolean {
    return this.#inner.isRegistered(token);
  }
  one(token: symbol): unknown {
    return this.#inner.resolve(token);
  }
  all(token: symbol): unknown[] {
    return this.has(token) ? this.#inner.resolveAll(token) : [];
  }
}
