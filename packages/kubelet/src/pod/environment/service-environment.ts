import type { Service, ServicePort } from '@oarlock/api/types/core-v1';
import type { Lister } from '@oarlock/spi/client';
import type { ClusterFacts } from '@oarlock/spi/cluster';

export type Variables = ReadonlyMap<string, string>;

const upper = (text: string) => text.toUpperCase().replaceAll('-', '_');
const hostPort = (host: string, port: number) => (host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`);

/** Yields the environment variables of one Service, in the format of Docker links. */
function* variablesOf(name: string, ip: string, ports: readonly ServicePort[]): Generator<[string, string]> {
  const prefix = upper(name);
  const [first] = ports;
  if (!first) return;
  yield [`${prefix}_SERVICE_HOST`, ip];
  yield [`${prefix}_SERVICE_PORT`, String(first.port)];
  for (const port of ports) if (port.name) yield [`${prefix}_SERVICE_PORT_${upper(port.name)}`, String(port.port)];
  for (const [index, port] of ports.entries()) {
    const protocol = port.protocol ?? 'TCP';
    const url = `${protocol.toLowerCase()}://${hostPort(ip, port.port)}`;
    const base = `${prefix}_PORT_${port.port}_${protocol}`;
    if (index === 0) yield [`${prefix}_PORT`, url];
    yield [base, url];
    yield [`${base}_PROTO`, protocol.toLowerCase()];
    yield [`${base}_PORT`, String(port.port)];
    yield [`${base}_ADDR`, ip];
  }
}

/**
 * Provides the environment variables of Services. They are cached per namespace until a Service of the namespace changes, because pods start far
 * more often than Services change.
 */
export class ServiceEnvironment {
  readonly #services: Lister<Service>;
  readonly #facts: Pick<ClusterFacts, 'kubernetesServiceIP'>;
  readonly #links = new Map<string, Variables>();
  #api: Variables | undefined;

  constructor(services: Lister<Service>, facts: Pick<ClusterFacts, 'kubernetesServiceIP'>) {
    this.#services = services;
    this.#facts = facts;
  }

  /** Drops cached variables. Must be called after each change of a Service. */
  changed({ metadata }: Service): void {
    this.#links.delete(metadata?.namespace ?? '');
    if (metadata?.namespace === 'default') {
      this.#links.clear();
      this.#api = undefined;
    }
  }

  /** Returns the variables of the API server. With `links` (enableServiceLinks), adds the variables of all Services of the namespace. */
  variables(namespace: string, links: boolean): Variables {
    if (!links) return (this.#api ??= new Map(this.#apiServer()));
    let known = this.#links.get(namespace);
    if (known === undefined) {
      known = new Map([...this.#ofNamespace(namespace), ...this.#apiServer()]);
      this.#links.set(namespace, known);
    }
    return known;
  }

  *#ofNamespace(namespace: string): Generator<[string, string]> {
    const named = [...this.#services.list(namespace)].sort((a, b) => ((a.metadata?.name ?? '') < (b.metadata?.name ?? '') ? -1 : 1));
    for (const { metadata, spec } of named) {
      const ip = spec?.clusterIP;
      if (ip && ip !== 'None' && spec?.type !== 'ExternalName') yield* variablesOf(metadata?.name ?? '', ip, spec?.ports ?? []);
    }
  }

  /** Yields the variables of the Service `kubernetes`, from the cluster's configuration until that Service exists. */
  *#apiServer(): Generator<[string, string]> {
    const spec = this.#services.get('default/kubernetes')?.spec;
    yield* variablesOf(
      'kubernetes',
      spec?.clusterIP ?? this.#facts.kubernetesServiceIP,
      spec?.ports ?? [{ name: 'https', port: 443, protocol: 'TCP' }],
    );
  }
}
