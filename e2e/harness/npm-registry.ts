import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { json } from 'node:stream/consumers';

interface PublishedPackage {
  /** The folder from which the archive is made, or the archive that `npm publish` sent. */
  readonly content: string | Buffer;
  readonly manifest: { readonly name: string; readonly version: string };
}

/** What `npm publish` sends, as far as it is needed here. */
interface Publication {
  readonly versions: Readonly<Record<string, PublishedPackage['manifest']>>;
  readonly _attachments: Readonly<Record<string, { readonly data: string }>>;
}

interface LockFile {
  readonly packages: Readonly<Record<string, { readonly name?: string; readonly version?: string; readonly link?: boolean }>>;
}

/**
 * An npm registry on loopback that needs no network: it has the packages that a test publishes by their folders or by `npm publish`, and those that are
 * installed in a checkout. Supported versions of Verdaccio need a newer Node than Oarlock's oldest.
 */
export class NpmRegistry {
  readonly #server: Server;
  /** The packages by name and version. */
  readonly #packages = new Map<string, Map<string, PublishedPackage>>();
  /** The names of the downloaded packages. */
  readonly downloads: string[] = [];

  constructor() {
    this.#server = createServer((request, response) =>
      request.method === 'PUT'
        ? void this.#receive(request, response).catch((error: Error) => response.writeHead(500).end(error.message))
        : this.#handle(request, response),
    );
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/`;
  }

  /** Adds package folders. The last version of a package is its `latest`. */
  async publish(folders: readonly string[]): Promise<void> {
    for (const folder of folders) {
      const manifest = JSON.parse(await readFile(join(folder, 'package.json'), 'utf8')) as PublishedPackage['manifest'];
      this.#add({ content: folder, manifest });
    }
  }

  #add(published: PublishedPackage): void {
    const { name, version } = published.manifest;
    this.#packages.set(name, (this.#packages.get(name) ?? new Map<string, PublishedPackage>()).set(version, published));
  }

  /** Adds the packages that `npm ci` installed in a checkout. Packages of other platforms are missing. */
  async publishInstalled(root: string): Promise<void> {
    const { packages } = JSON.parse(await readFile(join(root, 'package-lock.json'), 'utf8')) as LockFile;
    const paths = Object.entries(packages).filter(([path, { link }]) => path.startsWith('node_modules/') && link !== true);
    await this.publish(paths.map(([path]) => join(root, path)).filter((folder) => existsSync(join(folder, 'package.json'))));
  }

  async start(): Promise<void> {
    this.#server.listen(0, '127.0.0.1');
    await once(this.#server, 'listening');
  }

  async stop(): Promise<void> {
    const closed = once(this.#server, 'close');
    this.#server.close();
    this.#server.closeAllConnections();
    await closed;
  }

  #handle({ method, url = '/' }: IncomingMessage, response: ServerResponse): void {
    const path = decodeURIComponent(new URL(url, 'http://registry').pathname).slice(1);
    const [, tarballOf = '', version = ''] = /^(.+)\/-\/(.+)\.tgz$/.exec(path) ?? [];
    const versions = this.#packages.get(tarballOf === '' ? path : tarballOf);
    const found = versions?.get(version);
    if (method !== 'GET') response.writeHead(405).end();
    else if (versions === undefined || (tarballOf !== '' && found === undefined)) response.writeHead(404).end('{"error":"not found"}');
    else if (found === undefined) response.writeHead(200, { 'content-type': 'application/json' }).end(this.#metadata(path, versions));
    else this.#sendTarball(found, response);
  }

  /** Takes a package of `npm publish`. A version that exists stays, as in every registry. */
  async #receive(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { versions, _attachments: attachments } = (await json(request)) as Publication;
    const [manifest] = Object.values(versions);
    const [archive] = Object.values(attachments);
    if (manifest === undefined || archive === undefined) response.writeHead(400).end('{"error":"a version or its archive is missing"}');
    else if (this.#packages.get(manifest.name)?.has(manifest.version)) response.writeHead(409).end('{"error":"the version exists"}');
    else {
      this.#add({ content: Buffer.from(archive.data, 'base64'), manifest });
      response.writeHead(201, { 'content-type': 'application/json' }).end('{"ok":true}');
    }
  }

  #metadata(name: string, versions: ReadonlyMap<string, PublishedPackage>): string {
    const entries = [...versions].map(([version, { manifest }]) => [
      version,
      { ...manifest, dist: { tarball: `${this.url}${name}/-/${version}.tgz` } },
    ]);
    return JSON.stringify({ name, 'dist-tags': { latest: [...versions.keys()].at(-1) }, versions: Object.fromEntries(entries) });
  }

  #sendTarball({ content, manifest }: PublishedPackage, response: ServerResponse): void {
    this.downloads.push(manifest.name);
    response.writeHead(200, { 'content-type': 'application/octet-stream' });
    if (typeof content !== 'string') {
      response.end(content);
      return;
    }
    const options = ['--exclude=./node_modules', '--transform', 's,^\\.,package,'];
    // for one download on loopback, stronger compression takes longer than it saves
    const compressed = ['--use-compress-program=gzip --fast', '-cf', '-'];
    const tar = spawn('tar', [...compressed, ...options, '-C', content, '.'], { stdio: ['ignore', 'pipe', 'inherit'] });
    tar.on('error', (error) => response.destroy(error));
    tar.stdout.pipe(response);
  }
}
