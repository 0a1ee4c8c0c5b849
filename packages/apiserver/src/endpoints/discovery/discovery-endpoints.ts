import type { Kind } from '@oarlock/api/kinds';
import { withAggregatedDiscovery, withAggregatedGroups, type AggregatedApis } from './aggregated-groups.ts';
import { aggregatedDiscovery, discoveryDocuments } from './discovery.ts';
import { sendDocument, staticDocument, type StaticDocument } from '../../http/static-document.ts';
import type { Exchange } from '../../http/exchange.ts';
import { encodeValue } from '../negotiation/encoding.ts';
import { loadCodec } from '../negotiation/protobuf-codec.ts';
import { parseAccept, type NegotiatedFormat } from '../negotiation/negotiation.ts';

type AggregatedVersion = 'v2' | 'v2beta1';
const jsonForm: NegotiatedFormat = { format: 'json', transform: undefined, version: 'v1', pretty: false };
const binaryForm: NegotiatedFormat = { ...jsonForm, format: 'protobuf' };

export interface DiscoveryEndpointsOptions {
  readonly served: () => readonly Kind[];
  readonly serverAddress: () => string;
  readonly remote?: () => AggregatedApis;
  /** Whether resources have `storageVersionHash` (feature gate StorageVersionHash). */
  readonly storageVersionHash?: boolean;
}

/** Serves the discovery documents. A document is built on first request, and again after the served kinds have changed. */
export class DiscoveryEndpoints {
  readonly #served: () => readonly Kind[];
  readonly #serverAddress: () => string;
  readonly #remote: () => AggregatedApis;
  readonly #storageVersionHash: boolean;
  #builtFromKinds: readonly Kind[] | undefined;
  #builtFromRemote: AggregatedApis = [];
  #legacyDocuments: ReadonlyMap<string, object> = new Map();
  #documents = new Map<string, StaticDocument>();

  /** Creates the endpoints. `remote` must return a new array whenever the APIs of extension API servers change. */
  constructor({ served, serverAddress, remote = () => noRemoteGroups, storageVersionHash = true }: DiscoveryEndpointsOptions) {
    this.#storageVersionHash = storageVersionHash;
    this.#served = served;
    this.#serverAddress = serverAddress;
    this.#remote = remote;
  }

  /** The paths of discovery documents, also of those that extension API servers have. */
  get paths(): readonly string[] {
    const remote = this.#remote().map(({ group, version }) => `/apis/${group}/${version}`);
    return [...new Set([...this.#current().keys(), '/apis/', ...remote])];
  }
  has(path: string): boolean {
    return this.#current().has(path);
  }

  /** Returns the discovery document at a path as JSON, for loopback clients; undefined if there is none. */
  value(path: string): object | undefined {
    return this.#current().get(path);
  }

  /** Sends a discovery document. Calls `negotiated` only if the client does not request aggregated discovery. */
  async send(exchange: Exchange, path: string, negotiated: () => NegotiatedFormat): Promise<void> {
    const plain = this.#current().get(path);
    const aggregated = path === '/api' || path === '/apis' ? wantsAggregatedDiscovery(exchange.headers.accept) : undefined;
    const accepted = aggregated === undefined ? negotiated() : aggregated.form;
    if (accepted.format === 'protobuf') await loadCodec();
    exchange.setHeader('Cache-Control', aggregated === undefined ? 'no-cache, private' : 'public');
    const key = `${path} ${aggregated?.version ?? ''} ${accepted.format} ${accepted.pretty}`;
    let document = this.#documents.get(key);
    if (document === undefined) {
      const value = aggregated === undefined ? plain : this.#aggregated(path as '/api' | '/apis', aggregated.version);
      const { contentType, body } = encodeValue(value, accepted);
      document = staticDocument(
        aggregated === undefined ? contentType : `${contentType};g=apidiscovery.k8s.io;v=${aggregated.version};as=APIGroupDiscoveryList`,
        body,
      );
      this.#documents.set(key, document);
    }
    await sendDocument(exchange, document);
  }

  #aggregated(path: '/api' | '/apis', version: AggregatedVersion): object {
    const document = aggregatedDiscovery(this.#served(), path, version);
    return path === '/apis' ? withAggregatedDiscovery(document, this.#builtFromRemote) : document;
  }

  #current(): ReadonlyMap<string, object> {
    const served = this.#served();
    const remote = this.#remote();
    if (this.#builtFromKinds !== served || this.#builtFromRemote !== remote) {
      this.#builtFromKinds = served;
      this.#builtFromRemote = remote;
      this.#legacyDocuments = withAggregatedGroups(
        discoveryDocuments({ served, serverAddress: this.#serverAddress(), storageVersionHash: this.#storageVersionHash }),
        remote,
      );
      this.#documents = new Map();
    }
    return this.#legacyDocuments;
  }
}

const noRemoteGroups: AggregatedApis = [];

interface AggregatedForm {
  readonly version: AggregatedVersion;
  readonly form: NegotiatedFormat;
}

/** Returns the version and format of aggregated discovery if the client prefers it to the legacy documents; otherwise undefined. */
function wantsAggregatedDiscovery(accept: string | undefined): AggregatedForm | undefined {
  if (accept === undefined || !accept.includes('APIGroupDiscoveryList')) return undefined;
  for (const { type, subtype, parameters } of parseAccept(accept)) {
    const binary = subtype === 'vnd.kubernetes.protobuf';
    if (type !== '*' && (type !== 'application' || (subtype !== 'json' && subtype !== '*' && !binary))) continue;
    if (!parameters.has('as')) return undefined;
    const version = parameters.get('v');
    if (
      parameters.get('as') === 'APIGroupDiscoveryList' &&
      parameters.get('g') === 'apidiscovery.k8s.io' &&
      (version === 'v2' || version === 'v2beta1')
    )
      return { version, form: binary ? binaryForm : jsonForm };
  }
  return undefined;
}
