import { createHash } from 'node:crypto';
import { finished } from 'node:stream/promises';
import { setImmediate } from 'node:timers/promises';
import { createGzip } from 'node:zlib';
import type { Kind } from '@oarlock/api/kinds';
import { servedGroups } from '../discovery/discovery.ts';
import type { AggregatedApis } from '../discovery/aggregated-groups.ts';
import { sendDocument, etagOf, type StaticDocument } from '../../http/static-document.ts';
import type { Exchange } from '../../http/exchange.ts';
import type { Query } from '../../http/path.ts';
import { notAcceptable, parseAccept } from '../negotiation/negotiation.ts';
import { allDescriptions } from './openapi-descriptions.ts';
import { jsonOf, openApiParts, unversionedDocuments, unversionedParts, type OpenApiPart } from './openapi-document.ts';
import { withAggregatedDocuments, type AggregatedDocument } from './aggregated-documents.ts';
import { protobufOf } from './internal/openapi-v2-protobuf.ts';

const v2ProtobufTypes: ReadonlySet<string> = new Set([
  'com.github.proto-openapi.spec.v2@v1.0+protobuf',
  'com.github.proto-openapi.spec.v2.v1.0+protobuf',
]);
/** The older media type of OpenAPI v2 in protobuf. Clients that request it cannot parse the newer media type in a response. */
const v2Protobuf = 'application/com.github.proto-openapi.spec.v2.v1.0+protobuf';
const longestTurnMs = 5;
const yearSeconds = 31_536_000;

interface OpenApiSnapshot {
  readonly served: readonly Kind[];
  readonly byPath: ReadonlyMap<string, DocumentSource>;
  readonly hash: string;
}
/** An OpenAPI v3 document that is built on first request. */
interface DocumentSource {
  readonly hash: string;
  parts(): Iterable<OpenApiPart>;
}

export interface OpenApiOptions {
  readonly served: () => readonly Kind[];
  /** The version of the cluster. */
  readonly version: string;
  /**
   * Returns the OpenAPI v3 documents of extension API servers, for the index. Requests for these documents are proxied and do not reach this class.
   */
  readonly remote?: () => AggregatedApis;
  /** Returns the OpenAPI v2 documents of extension API servers, which are merged into the OpenAPI v2 document. */
  readonly others?: () => Promise<readonly AggregatedDocument[]>;
  /** Returns the descriptions of built-in kinds as one text, for the hash of the documents. */
  readonly descriptions?: () => string;
}

/**
 * Serves the OpenAPI v2 and v3 documents of the served kinds. A document is built on first request, in short turns of the event loop, and only its
 * compressed bytes are kept. The hash of a document is computed from its inputs, so that the OpenAPI v3 index lists all documents without building
 * them.
 */
export class OpenApiEndpoints {
  readonly #served: () => readonly Kind[];
  readonly #version: string;
  readonly #remoteDocuments: () => AggregatedApis;
  readonly #others: () => Promise<readonly AggregatedDocument[]>;
  readonly #descriptions: () => string;
  #commonHash: Buffer | undefined;
  #state: OpenApiSnapshot | undefined;
  #documents = new Map<string, Promise<StaticDocument>>();

  constructor({ served, version, remote = () => [], others = async () => [], descriptions = allDescriptions }: OpenApiOptions) {
    this.#descriptions = descriptions;
    this.#remoteDocuments = remote;
    this.#others = others;
    this.#served = served;
    this.#version = version;
  }

  get paths(): readonly string[] {
    return ['/openapi/v2', '/openapi/v3', '/openapi/v3/', ...this.#current().byPath.keys()];
  }
  has(path: string): boolean {
    return path === '/openapi/v2' || path === '/openapi/v3' || path === '/openapi/v3/' || this.#current().byPath.has(path);
  }

  async send(exchange: Exchange, path: string, query: Query): Promise<void> {
    if (path === '/openapi/v2') return this.#sendV2(exchange);
    if (path === '/openapi/v3' || path === '/openapi/v3/') return this.#sendIndex(exchange);
    return this.#sendV3(exchange, path, query);
  }

  async #sendV2(exchange: Exchange): Promise<void> {
    const { served, hash } = this.#current();
    const form = v2Form(exchange.headers.accept);
    if (form === undefined) throw notAcceptable(['application/json', v2Protobuf]);
    const others = await this.#others();
    const tag = others.length === 0 ? hash : createHash('sha256').update(hash).update(JSON.stringify(others)).digest('hex').toUpperCase();
    const key = `v2 ${form} ${tag}`;
    const document = await this.#document(key, () => {
      for (const old of this.#documents.keys()) if (old.startsWith(`v2 ${form} `) && old !== key) this.#documents.delete(old);
      const localParts = openApiParts(served, 2, this.#version);
      const parts = others.length === 0 ? localParts : withAggregatedDocuments(localParts, others);
      return build(
        form === 'json' ? 'application/json' : v2Protobuf,
        form === 'json' ? jsonOf(parts, 2) : protobufOf(parts),
        `"${tag}${form === 'json' ? '' : '-PB'}"`,
      );
    });
    await sendDocument(exchange, document);
  }

  async #sendIndex(exchange: Exchange): Promise<void> {
    const paths = Object.fromEntries(
      [...this.#current().byPath].map(([path, { hash }]) => [
        path.slice('/openapi/v3/'.length),
        { serverRelativeURL: `${path}?hash=${hash}` },
      ]),
    );
    for (const { group, version, openApiHash } of this.#remoteDocuments())
      if (openApiHash !== undefined)
        paths[`apis/${group}/${version}`] ??= {
          serverRelativeURL: `/openapi/v3/apis/${group}/${version}${openApiHash === '' ? '' : `?hash=${encodeURIComponent(openApiHash)}`}`,
        };
    const content = `${JSON.stringify({ paths })}\n`;
    await sendDocument(exchange, {
      contentType: 'application/json',
      etag: etagOf(content),
      bytes: Buffer.from(content),
      compressed: false,
    });
  }

  async #sendV3(exchange: Exchange, path: string, query: Query): Promise<void> {
    const entry = this.#current().byPath.get(path);
    if (entry === undefined) return;
    const { hash } = entry;
    const requestedHash = query.first['hash'];
    if (requestedHash !== undefined && requestedHash !== '' && requestedHash !== hash) {
      exchange.setHeader('Location', `${path}?hash=${hash}`);
      exchange.setHeader('Cache-Control', 'no-cache, private');
      exchange.send(301, '');
      return;
    }
    if (!acceptsJson(exchange.headers.accept)) throw notAcceptable(['application/json']);
    if (requestedHash === hash) {
      exchange.setHeader('Cache-Control', `public, immutable, max-age=${yearSeconds}`);
      exchange.setHeader('Expires', new Date(Date.now() + yearSeconds * 1000).toUTCString());
    }
    await sendDocument(
      exchange,
      await this.#document(`${path} ${hash}`, () => build('application/json', jsonOf(entry.parts(), 3), `"${hash}"`)),
    );
  }

  /** Returns a document, which is built once even for concurrent requests. A failure is not cached. */
  #document(key: string, make: () => Promise<StaticDocument>): Promise<StaticDocument> {
    let document = this.#documents.get(key);
    if (document === undefined) {
      document = make();
      this.#documents.set(key, document);
      document.catch(() => {
        this.#documents.delete(key);
      });
    }
    return document;
  }

  /** Returns a hash of the inputs that all documents share. Descriptions change with releases of Oarlock, not with the API. */
  #common(): Buffer {
    this.#commonHash ??= createHash('sha256').update(this.#version).update('\0').update(this.#descriptions()).digest();
    return this.#commonHash;
  }

  #current(): OpenApiSnapshot {
    const served = this.#served();
    if (this.#state?.served === served) return this.#state;
    const byPath = new Map<string, DocumentSource>();
    for (const name of unversionedDocuments(served))
      byPath.set(`/openapi/v3/${name}`, { hash: this.#hash([], name), parts: () => unversionedParts(name, this.#version) });
    for (const { name, versions } of servedGroups(served)) {
      for (const { version, kinds } of versions)
        byPath.set(name === '' ? `/openapi/v3/api/${version}` : `/openapi/v3/apis/${name}/${version}`, {
          hash: this.#hash(kinds),
          parts: () => openApiParts(kinds, 3, this.#version),
        });
    }
    const kept = new Set([...byPath].map(([path, { hash }]) => `${path} ${hash}`));
    for (const key of this.#documents.keys()) if (!kept.has(key)) this.#documents.delete(key);
    this.#state = { served, byPath, hash: this.#hash(served) };
    return this.#state;
  }

  #hash(kinds: readonly Kind[], name = ''): string {
    const hash = createHash('sha256').update(this.#common()).update(name);
    for (const kind of kinds) hash.update(kindText(kind));
    return hash.digest('hex').toUpperCase();
  }
}

const texts = new WeakMap<Kind, string>();

/** Returns the JSON text of a kind, cached by Kind object, because a Kind is replaced when it changes. */
function kindText(kind: Kind): string {
  let text = texts.get(kind);
  if (text === undefined) texts.set(kind, (text = JSON.stringify(kind)));
  return text;
}

/** Builds a document from its parts: collects and compresses them, and yields to the event loop between parts. */
async function build(contentType: string, pieces: Iterable<string | Buffer>, etag: string): Promise<StaticDocument> {
  const gzip = createGzip();
  const chunks: Buffer[] = [];
  gzip.on('data', (chunk: Buffer) => {
    chunks.push(chunk);
  });
  let began = performance.now();
  for (const piece of pieces) {
    gzip.write(piece);
    if (performance.now() - began < longestTurnMs) continue;
    await setImmediate();
    began = performance.now();
  }
  gzip.end();
  await finished(gzip);
  return { contentType, etag, bytes: Buffer.concat(chunks), compressed: true };
}

function v2Form(accept: string | undefined): 'json' | 'protobuf' | undefined {
  if (accept === undefined || accept === '') return 'json';
  for (const { type, subtype } of parseAccept(accept)) {
    if (type === '*' || (type === 'application' && (subtype === '*' || subtype === 'json'))) return 'json';
    if (type === 'application' && v2ProtobufTypes.has(subtype)) return 'protobuf';
  }
  return undefined;
}

function acceptsJson(accept: string | undefined): boolean {
  return (
    accept === undefined ||
    accept === '' ||
    parseAccept(accept).some(({ type, subtype }) => type === '*' || (type === 'application' && (subtype === '*' || subtype === 'json')))
  );
}
