import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { createServer, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';

interface Installed {
  readonly folder: string;
  readonly manifest: { readonly name: string; readonly version: string };
}
interface LockFile {
  readonly packages: Readonly<Record<string, { readonly link?: boolean }>>;
}

/**
 * Stands for npmjs.com as the uplink of a registry in a network namespace, from which nothing else can be reached: serves the packages that `npm ci`
 * installed in a checkout. Packages of other platforms are missing.
 */
export class InstalledPackages {
  readonly #server: Server;
  /** The packages by name and version. */
  readonly #packages = new Map<string, Map<string, Installed>>();

  private constructor() {
    this.#server = createServer(({ url = '/' }, response) => this.#handle(url, response));
  }

  static async serve(root: string): Promise<InstalledPackages> {
    const server = new InstalledPackages();
    const { packages } = JSON.parse(await readFile(join(root, 'package-lock.json'), 'utf8')) as LockFile;
    for (const [path, { link }] of Object.entries(packages)) {
      const folder = join(root, path);
      if (path.startsWith('node_modules/') && link !== true && existsSync(join(folder, 'package.json'))) await server.#add(folder);
    }
    server.#server.listen(0, '127.0.0.1');
    await once(server.#server, 'listening');
    return server;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/`;
  }

  async stop(): Promise<void> {
    const closed = once(this.#server, 'close');
    this.#server.close();
    this.#server.closeAllConnections();
    await closed;
  }

  async #add(folder: string): Promise<void> {
    const manifest = JSON.parse(await readFile(join(folder, 'package.json'), 'utf8')) as Installed['manifest'];
    const versions = this.#packages.get(manifest.name) ?? new Map<string, Installed>();
    this.#packages.set(manifest.name, versions.set(manifest.version, { folder, manifest }));
  }

  #handle(url: string, response: ServerResponse): void {
    const path = decodeURIComponent(new URL(url, 'http://registry').pathname).slice(1);
    const [, archiveOf, version = ''] = /^(.+)\/-\/(.+)\.tgz$/.exec(path) ?? [];
    const versions = this.#packages.get(archiveOf ?? path);
    const found = versions?.get(version);
    if (versions === undefined || (archiveOf !== undefined && found === undefined)) response.writeHead(404).end('{"error":"not found"}');
    else if (found !== undefined) sendArchive(found.folder, response);
    else response.writeHead(200, { 'content-type': 'application/json' }).end(this.#metadata(path, versions));
  }

  #metadata(name: string, versions: ReadonlyMap<string, Installed>): string {
    const entries = [...versions].map(([version, { manifest }]) => [
      version,
      { ...manifest, dist: { tarball: `${this.url}${name}/-/${version}.tgz` } },
    ]);
    return JSON.stringify({ name, 'dist-tags': { latest: [...versions.keys()].at(-1) }, versions: Object.fromEntries(entries) });
  }
}

function sendArchive(folder: string, response: ServerResponse): void {
  response.writeHead(200, { 'content-type': 'application/octet-stream' });
  const options = ['--exclude=./node_modules', '--transform', 's,^\\.,package,'];
  // for one download on loopback, stronger compression takes longer than it saves
  const tar = spawn('tar', ['--use-compress-program=gzip --fast', '-cf', '-', ...options, '-C', folder, '.'], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  tar.on('error', (error) => response.destroy(error));
  tar.stdout.pipe(response);
}
