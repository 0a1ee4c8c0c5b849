import { createServer, type Server } from 'node:https';
import type { AddressInfo } from 'node:net';
import { testKeys } from '../support/keys.ts';

export type Json = Readonly<Record<string, unknown>>;
export interface Review {
  readonly apiVersion: string;
  readonly kind: string;
  readonly request: Json & { readonly uid: string; readonly object?: Json | null; readonly objects?: readonly Json[] };
}
/** The `response` of a review, without its uid. */
export type Answering = (review: Review) => Json;

/** A webhook server on this machine, for admission and conversion. */
export class Hooks {
  readonly reviews: Review[] = [];
  readonly #answers = new Map<string, Answering>();
  readonly #server: Server;
  readonly #caBundle: string;

  private constructor(server: Server, caBundle: string) {
    this.#server = server;
    this.#caBundle = caBundle;
  }

  static async start(): Promise<Hooks> {
    const keys = await testKeys();
    const { certificate, key } = await keys.issue({ commonName: 'hooks', ipAddresses: ['127.0.0.1'], usages: ['server'] });
    const server = createServer({ cert: certificate, key });
    const hooks = new Hooks(server, Buffer.from(keys.caBundle).toString('base64'));
    server.on('request', (request, response) => {
      const chunks: Buffer[] = [];
      request.on('data', (chunk: Buffer) => chunks.push(chunk));
      request.on('end', () => {
        const review = JSON.parse(Buffer.concat(chunks).toString()) as Review;
        hooks.reviews.push(review);
        const { apiVersion, kind, request: asked } = review;
        const path = (request.url ?? '').split('?')[0] ?? '';
        const answer = hooks.#answers.get(path)?.(review) ?? { allowed: true };
        response.setHeader('content-type', 'application/json');
        response.end(JSON.stringify({ apiVersion, kind, response: { uid: asked.uid, ...answer } }));
      });
    });
    await new Promise<void>((resolve) => {
      server.listen(0, '127.0.0.1', resolve);
    });
    return hooks;
  }

  stop(): Promise<void> {
    this.#server.closeAllConnections();
    return new Promise((resolve) => {
      this.#server.close(() => resolve());
    });
  }

  /** Returns a `clientConfig` for this response. */
  at(path: string, answer: Answering): { readonly url: string; readonly caBundle: string } {
    this.#answers.set(path, answer);
    const { port } = this.#server.address() as AddressInfo;
    return { url: `https://127.0.0.1:${port}${path}`, caBundle: this.#caBundle };
  }
}

export const patching = (...operations: readonly object[]): Json => ({
  allowed: true,
  patchType: 'JSONPatch',
  patch: Buffer.from(JSON.stringify(operations)).toString('base64'),
});
