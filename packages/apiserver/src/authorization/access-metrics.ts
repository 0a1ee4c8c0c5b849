import type { X509Certificate } from 'node:crypto';
import type { Decision } from '@oarlock/spi/authz';
import { Counter, type Registry } from 'prom-client';
import { PrecomputedHistogram, readCounter, type Observer } from '@oarlock/kernel/precomputed-metrics';

/** The buckets of upstream's histograms: powers of two from one millisecond, in seconds. */
const buckets = Array.from({ length: 15 }, (_, i) => 0.001 * 2 ** i);
const [hour, day] = [3600, 86_400];
/** Upstream's buckets of remaining lifetimes, in seconds. */
const expirationBuckets = [
  0,
  hour / 2,
  hour,
  2 * hour,
  6 * hour,
  12 * hour,
  day,
  2 * day,
  4 * day,
  7 * day,
  30 * day,
  90 * day,
  180 * day,
  360 * day,
];
/** The users that upstream's metrics count by name. */
const named: ReadonlySet<string> = new Set(['admin', 'client', 'kube_proxy', 'kubelet', 'system:serviceaccount:kube-system:default']);
const decisions = { allow: 'allowed', deny: 'denied', 'no-opinion': 'no-opinion', error: 'error' } as const;

/** The labels `type` and `name` of upstream's authorizers, by plugin; undefined for the one that upstream does not count. */
const authorizerLabels: Readonly<Record<string, readonly [type: string, name: string] | undefined>> = {
  'authz-masters': undefined,
  'authz-abac': ['ABAC', 'abac'],
  'authz-always-allow': ['AlwaysAllow', 'alwaysallow'],
  'authz-always-deny': ['AlwaysDeny', 'alwaysdeny'],
  'authz-node': ['Node', 'node'],
  'authz-rbac': ['RBAC', 'rbac'],
  'authz-webhook': ['Webhook', 'webhook'],
};

interface Series {
  count: number;
  readonly seconds: Observer;
}

/** The metrics of authentication and authorization, under upstream's names. */
export class AuthMetrics {
  readonly #authentications: (result: string) => Series;
  readonly #authorizations: (result: string) => Series;
  /** The numbers of requests by the label `username`. */
  readonly #users = new Map<string, number>();
  /** The numbers of final decisions, by plugin. */
  readonly #decisions = new Map<string, { allowed: number; denied: number }>();
  readonly #certificates: Observer;
  /** The ends of known certificates, in seconds since the Unix epoch: all requests of a connection share a certificate. */
  readonly #expirations = new WeakMap<X509Certificate, number>();

  constructor(registry: Registry) {
    this.#authentications = registerAttempts(registry, 'authentication', 'authentication_attempts');
    this.#authorizations = registerAttempts(registry, 'authorization', 'authorization_attempts_total');
    const help = 'Authenticated requests by user name: some system users by name, email addresses as email_id, others as other.';
    readCounter(registry, { name: 'authenticated_user_requests', help, labelNames: ['username'] }, () =>
      [...this.#users].map(([username, count]) => [{ username }, count]),
    );
    readCounter(
      registry,
      {
        name: 'apiserver_authorization_decisions_total',
        help: 'Final decisions by authorizer type, authorizer name and decision.',
        labelNames: ['type', 'name', 'decision'],
      },
      () => [...this.#decisions].flatMap(([plugin, counts]) => decisionCounts(plugin, counts)),
    );
    this.#certificates = new PrecomputedHistogram({
      name: 'apiserver_client_certificate_expiration_seconds',
      help: 'Distribution of the remaining lifetime on the certificate used to authenticate a request.',
      labelNames: [],
      buckets: expirationBuckets,
      registry,
    }).series({});
  }

  /** Records the use of a client certificate of the cluster CA. */
  observeClientCertificate(certificate: X509Certificate, nowMs: number): void {
    let expiration = this.#expirations.get(certificate);
    if (expiration === undefined) this.#expirations.set(certificate, (expiration = Date.parse(certificate.validTo) / 1000));
    this.#certificates.observe(expiration - nowMs / 1000);
  }

  /** Records an authentication. `user` is undefined if the authentication failed. */
  observeAuthentication(user: string | undefined, seconds: number): void {
    if (user !== undefined) {
      const username = named.has(user) ? user : user.includes('@') ? 'email_id' : 'other';
      this.#users.set(username, (this.#users.get(username) ?? 0) + 1);
    }
    observe(this.#authentications(user === undefined ? 'failure' : 'success'), seconds);
  }

  observeAuthorization(decision: keyof typeof decisions, seconds: number): void {
    observe(this.#authorizations(decisions[decision]), seconds);
  }

  /** Counts the decision of the authorizer that ended the chain. */
  countDecision(plugin: string | undefined, decision: Decision['decision']): void {
    if (plugin === undefined || decision === 'no-opinion') return;
    let counts = this.#decisions.get(plugin);
    if (counts === undefined) this.#decisions.set(plugin, (counts = { allowed: 0, denied: 0 }));
    counts[decision === 'allow' ? 'allowed' : 'denied']++;
  }
}

function decisionCounts(plugin: string, counts: Readonly<Record<'allowed' | 'denied', number>>) {
  const labels = Object.hasOwn(authorizerLabels, plugin) ? authorizerLabels[plugin] : ([plugin, plugin] as const);
  if (labels === undefined) return [];
  const [type, name] = labels;
  return (['allowed', 'denied'] as const)
    .filter((decision) => counts[decision] > 0)
    .map((decision): [Record<string, string>, number] => [{ type, name, decision }, counts[decision]]);
}

function observe(series: Series, seconds: number): void {
  series.count++;
  series.seconds.observe(seconds);
}

function registerAttempts(registry: Registry, subject: string, name: string): (result: string) => Series {
  const all = new Map<string, Series>();
  const counter = new Counter({
    name,
    help: `Number of ${subject} attempts by result.`,
    labelNames: ['result'],
    registers: [],
    collect() {
      this.reset();
      for (const [result, { count }] of all) this.inc({ result }, count);
    },
  });
  registry.registerMetric(counter);
  const durations = new PrecomputedHistogram({
    name: `${subject}_duration_seconds`,
    help: `Duration of ${subject} in seconds by result.`,
    labelNames: ['result'],
    buckets,
    registry,
  });
  return (result) => {
    let series = all.get(result);
    if (series === undefined) all.set(result, (series = { count: 0, seconds: durations.series({ result }) }));
    return series;
  };
}
