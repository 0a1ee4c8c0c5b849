import type { ApiClient } from '../../api/client.ts';
import { Schemas, type OpenApiDocument } from './openapi-schema.ts';

interface OpenApiIndex {
  readonly paths: Readonly<Record<string, { readonly serverRelativeURL: string }>>;
}

/** The groups and versions whose schemas are kept. */
const maxDocuments = 10;

/** Loads the schemas of groups and versions from `/openapi/v3` when they are needed, and keeps them. A failed request is sent again when they are needed again. */
export class SchemaLoader {
  readonly #client: ApiClient;
  #index: Promise<OpenApiIndex> | undefined;
  readonly #documents = new Map<string, Promise<Schemas | undefined>>();

  constructor(client: ApiClient) {
    this.#client = client;
  }

  /** Returns the schemas of a version; undefined if the server has none. @throws ApiError if the user may not read them */
  load(apiVersion: string): Promise<Schemas | undefined> {
    const known = this.#documents.get(apiVersion);
    if (known !== undefined) return known;
    const loading = this.#load(apiVersion);
    const [oldest] = this.#documents.keys();
    if (this.#documents.size >= maxDocuments && oldest !== undefined) this.#documents.delete(oldest);
    this.#documents.set(apiVersion, loading);
    loading.catch(() => this.#documents.delete(apiVersion)); // the caller receives the rejection
    return loading;
  }

  async #load(apiVersion: string): Promise<Schemas | undefined> {
    this.#index ??= this.#client.json<OpenApiIndex>('/openapi/v3');
    const index = await this.#index.catch((error: unknown) => {
      this.#index = undefined;
      throw error;
    });
    const url = index.paths[apiVersion.includes('/') ? `apis/${apiVersion}` : `api/${apiVersion}`]?.serverRelativeURL;
    // the path of a server behind a proxy may have a prefix, which the page does not know: only paths are followed
    if (url === undefined || !url.startsWith('/') || url.startsWith('//')) return undefined;
    return new Schemas(await this.#client.json<OpenApiDocument>(url));
  }
}
