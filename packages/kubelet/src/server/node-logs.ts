import { createReadStream } from 'node:fs';
import { readdir, realpath, stat } from 'node:fs/promises';
import type { ServerResponse } from 'node:http';
import { join, relative } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { HttpError } from './http/http-error.ts';

const escaped = (text: string) => text.replace(/[&<>"]/g, (one) => `&#${one.charCodeAt(0)};`);
const missing = (error: unknown): never => {
  throw new HttpError(404, '404 page not found', { cause: error });
};

/** Serves the files and directory listings in a log directory. Follows symbolic links only within the directory. */
export async function serveNodeLogs(root: string, path: string, response: ServerResponse): Promise<void> {
  const base = await realpath(root).catch(missing);
  const file = await realpath(join(base, path)).catch(missing);
  const inside = relative(base, file);
  if (inside === '..' || inside.startsWith('../')) throw new HttpError(403, 'the path leaves the directory of logs');
  const stats = await stat(file).catch(missing);
  if (stats.isDirectory()) {
    const entries = await readdir(file, { withFileTypes: true });
    const lines = entries
      .map((entry) => `${entry.name}${entry.isDirectory() ? '/' : ''}`)
      .sort()
      .map((name) => `<a href="${encodeURI(name)}">${escaped(name)}</a>`);
    const body = `<pre>\n${lines.join('\n')}\n</pre>\n`;
    response.writeHead(200, { 'Content-Type': 'text/html; charset=utf-8', 'Content-Length': Buffer.byteLength(body) });
    response.end(body);
    return;
  }
  if (!stats.isFile()) throw new HttpError(404, '404 page not found');
  response.writeHead(200, { 'Content-Type': 'text/plain; charset=utf-8' });
  // a log may grow meanwhile: send its current size
  if (stats.size === 0) response.end();
  else await pipeline(createReadStream(file, { end: stats.size - 1 }), response);
}
