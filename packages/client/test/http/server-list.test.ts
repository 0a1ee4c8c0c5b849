import { ServerList, serverUrl } from '@oarlock/client/http/server-list';
import { sequence } from '@oarlock/testing/memory-api';
import { describe, expect, it } from 'vitest';

const [a, b, c] = ['https://10.0.0.1:6443', 'https://10.0.0.2:6443', 'https://10.0.0.3:6443'];
const last = () => 0.999;

describe('ServerList', () => {
  it('starts with a random server', () => {
    const random = sequence(7);
    const first = new Set(Array.from({ length: 50 }, () => new ServerList([a, b, c], { random }).preferred));
    expect([...first].sort()).toEqual([a, b, c]);
  });

  it('moves a failed server to the end', () => {
    const list = new ServerList([a, b, c], { random: last });
    expect(list.servers).toEqual([a, b, c]);
    list.markFailed(a);
    expect(list.servers).toEqual([b, c, a]);
    list.markFailed(a);
    list.markFailed('https://unknown:6443');
    expect(list.servers).toEqual([b, c, a]);
  });

  it('prefers servers that were discovered earlier to the configured ones', () => {
    expect(new ServerList([a], { random: last, discovered: [b, c] }).servers).toEqual([b, c, a]);
  });

  it('replaces discovered servers and keeps the configured ones', () => {
    const list = new ServerList([a], { random: last });
    let changes = 0;
    const off = list.onChange(() => {
      changes += 1;
    });
    expect(list.setDiscovered([a, b, c])).toBe(true);
    expect([...list.servers].sort()).toEqual([a, b, c]);
    expect(list.setDiscovered([c, b, a])).toBe(false);
    expect(list.setDiscovered([b])).toBe(true);
    expect([...list.servers].sort()).toEqual([a, b]);
    expect(changes).toBe(2);
    off();
    list.setDiscovered([c]);
    expect(changes).toBe(2);
  });

  it('ignores an empty discovery and invalid URLs', () => {
    const list = new ServerList([a], { random: last });
    list.setDiscovered([b]);
    expect(list.setDiscovered([])).toBe(false);
    expect(list.setDiscovered(['http://10.0.0.9:1', 'no URL'])).toBe(false);
    expect([...list.servers].sort()).toEqual([a, b]);
  });

  it('does not bypass a proxy with a path, or replace plain http', () => {
    for (const configured of ['https://proxy/clusters/one', 'http://127.0.0.1:8001']) {
      const list = new ServerList([configured], { random: last });
      expect(list.setDiscovered([b])).toBe(false);
      expect(list.servers).toEqual([configured]);
    }
  });

  it('detects silence within 3.5 s only if there is another server', () => {
    const list = new ServerList([a], { random: last });
    expect(list.timing).toEqual({ silenceMs: 30_000, pingMs: 15_000, dialMs: 10_000 });
    list.setDiscovered([b]);
    expect(list.timing.silenceMs + list.timing.pingMs).toBe(3500);
  });

  it('rejects invalid lists', () => {
    expect(() => new ServerList([], { random: last })).toThrow('at least one server');
    expect(() => new ServerList(['ftp://x'], { random: last })).toThrow('ftp://x is neither https nor http');
    expect(() => new ServerList(['x'], { random: last })).toThrow('x is not a URL');
    expect(() => new ServerList([a, 'https://proxy/path'], { random: last })).toThrow('differ in scheme or path');
  });
});

describe('serverUrl', () => {
  it('encloses an IPv6 address in brackets', () => {
    expect(serverUrl('10.0.0.1', 6443)).toBe(a);
    expect(serverUrl('fd00::1', 6443)).toBe('https://[fd00::1]:6443');
  });
});
