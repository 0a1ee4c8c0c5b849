import { readFile } from 'node:fs/promises';
import { isIP } from 'node:net';
import type { Upstream } from './forwarder.ts';

/** Parses `1.1.1.1`, `10.0.0.2:5353` or `[fd00::1]:53`. Returns undefined for anything else. */
export function upstreamOf(text: string): Upstream | undefined {
  if (isIP(text) !== 0) return { host: text, port: 53 };
  const [, v6, v4, port] = /^(?:\[([0-9a-fA-F:]+)\]|([0-9.]+)):(\d{1,5})$/.exec(text) ?? [];
  const host = v6 ?? v4;
  if (host === undefined || isIP(host) === 0 || Number(port) < 1 || Number(port) > 65_535) return undefined;
  return { host, port: Number(port) };
}

/** Returns the name servers of the machine (resolv.conf(5)); none if the file does not exist. */
export async function systemUpstreams(file = '/etc/resolv.conf'): Promise<readonly Upstream[]> {
  let text: string;
  try {
    text = await readFile(file, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return [];
    throw error;
  }
  return text.split('\n').flatMap((line) => {
    const [key, value = ''] = line.trim().split(/\s+/);
    const upstream = key === 'nameserver' ? upstreamOf(value) : undefined;
    return upstream === undefined ? [] : [upstream];
  });
}
