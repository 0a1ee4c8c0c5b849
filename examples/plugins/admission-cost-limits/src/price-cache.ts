import type { Clock } from '@oarlock/primitives/clock';

export interface PriceCacheOptions {
  readonly url: string;
  readonly timeoutMs: number;
  readonly cacheSeconds: number;
  readonly clock: Clock;
}

const maxKept = 1_000;

/** Caches prices for a while. Concurrent requests for one price share one call. */
export class PriceCache {
  readonly #options: PriceCacheOptions;
  readonly #prices = new Map<string, { readonly price: Promise<number | undefined>; readonly until: number }>();

  constructor(options: PriceCacheOptions) {
    this.#options = options;
  }

  /** Returns undefined if the class does not exist. Rejects if the service does not respond in time; errors are not cached. */
  of(priceClass: string): Promise<number | undefined> {
    const { clock, cacheSeconds } = this.#options;
    const known = this.#prices.get(priceClass);
    if (known !== undefined && known.until > clock.monotonic()) return known.price;
    if (this.#prices.size >= maxKept) this.#prices.clear();
    const price = this.#ask(priceClass);
    this.#prices.set(priceClass, { price, until: clock.monotonic() + cacheSeconds * 1_000 });
    price.catch(() => this.#prices.delete(priceClass));
    return price;
  }

  async #ask(priceClass: string): Promise<number | undefined> {
    const { url, timeoutMs } = this.#options;
    const response = await fetch(`${url.replace(/\/$/, '')}/prices/${encodeURIComponent(priceClass)}`, {
      signal: AbortSignal.timeout(timeoutMs),
    });
    if (response.status === 404) return undefined;
    if (!response.ok) throw new Error(`the price service answered ${response.status}`);
    const { monthly } = (await response.json()) as { readonly monthly?: unknown };
    if (typeof monthly !== 'number') throw new Error('the price service answered without a price');
    return monthly;
  }
}
