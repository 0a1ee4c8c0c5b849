import type { KubeObject } from '@oarlock/api/object';
import type { Clock } from '@oarlock/primitives/clock';
import { Admission, allow, deny, type AdmissionRequest } from '@oarlock/spi/admission';
import { z } from 'zod';

interface EventLike extends KubeObject {
  readonly source?: { readonly component?: string; readonly host?: string };
  readonly involvedObject?: {
    readonly kind?: string;
    readonly namespace?: string;
    readonly name?: string;
    readonly uid?: string;
    readonly apiVersion?: string;
  };
  readonly regarding?: EventLike['involvedObject'];
  readonly reportingController?: string;
}

const limit = z.strictObject({
  type: z.enum(['Server', 'Namespace', 'User', 'SourceAndObject']),
  /** The rate limit in events per second. `burst` is the size of the token bucket. */
  qps: z.number().positive(),
  burst: z.int().min(1),
  /** The maximum number of keys with a token bucket. The least recently used bucket is evicted. */
  cacheSize: z.int().min(1).max(65_536).default(4096),
});
type Limit = z.output<typeof limit>;

function keyOf(type: Limit['type'], { namespace, identity, object }: AdmissionRequest): string {
  if (type === 'Server') return '';
  if (type === 'Namespace') return namespace;
  if (type === 'User') return identity.name;
  const event: EventLike = object ?? {};
  const about = event.involvedObject ?? event.regarding ?? {};
  return [
    event.source?.component ?? event.reportingController,
    event.source?.host,
    about.kind,
    about.namespace,
    about.name,
    about.uid,
    about.apiVersion,
  ].join('');
}

interface TokenBucket {
  tokens: number;
  at: number;
}

/** The token buckets of one limit, keyed by namespace, user or source. */
class TokenBuckets {
  readonly #limit: Limit;
  readonly #clock: Clock;
  readonly #buckets = new Map<string, TokenBucket>();

  constructor(limit: Limit, clock: Clock) {
    this.#limit = limit;
    this.#clock = clock;
  }
  take(key: string): boolean {
    const { qps, burst, cacheSize } = this.#limit;
    const now = this.#clock.monotonic();
    const bucket = this.#buckets.get(key) ?? { tokens: burst, at: now };
    bucket.tokens = Math.min(burst, bucket.tokens + ((now - bucket.at) * qps) / 1000);
    bucket.at = now;
    this.#buckets.delete(key); // move to the end: the first entry is the least recently used
    this.#buckets.set(key, bucket);
    if (this.#buckets.size > cacheSize)
      for (const oldest of this.#buckets.keys()) {
        this.#buckets.delete(oldest);
        break;
      }
    if (bucket.tokens < 1) return false;
    bucket.tokens -= 1;
    return true;
  }
}

/** Limits the rate of Event writes (EventRateLimit). */
export default Admission.plugin({
  id: 'admission-event-rate-limit',
  config: z.strictObject({ limits: z.array(limit).min(1) }),
  create({ config }, { clock }) {
    const limits = config.limits.map((each) => ({ type: each.type, buckets: new TokenBuckets(each, clock) }));
    return {
      matches: [{ resources: ['events', 'events.events.k8s.io'], operations: ['CREATE', 'UPDATE'] }],
      validate(request) {
        if (request.dryRun) return allow;
        const exceeded: string[] = [];
        for (const { type, buckets } of limits) {
          const key = keyOf(type, request);
          if (!buckets.take(key)) exceeded.push(`limit reached on type ${type} for key ${key}`);
        }
        return exceeded.length === 0
          ? allow
          : deny(exceeded.length === 1 ? (exceeded[0] ?? '') : `[${exceeded.join(', ')}]`, { reason: 'TooManyRequests' });
      },
    };
  },
});
