import { describe, expect, it } from 'vitest';
import { newSecret, SessionTable } from '../src/session-table.ts';
import { SignInLinks } from '../src/sign-in-links.ts';

const ada = { name: 'ada', groups: ['team'] };
const user = (name = 'ada', notAfter = Infinity) => ({ identity: { name, groups: [] }, notAfter });
const minute = 60_000;

function newTable({ maxSessions = 10, maxSessionsPerUser = 3 } = {}) {
  const clock = { time: 0, now: () => clock.time };
  const table = new SessionTable({ idleMs: 10 * minute, lifetimeMs: 60 * minute, maxSessions, maxSessionsPerUser, clock });
  const create = (name?: string, notAfter?: number): string => {
    const secret = newSecret();
    return table.create(user(name, notAfter), 'link', secret) === undefined ? '' : secret;
  };
  return { clock, table, create };
}

describe('a session', () => {
  it('is found by its secret only, and its id does not authenticate', () => {
    const { table } = newTable();
    const created = table.create({ identity: ada, notAfter: Infinity }, 'link', 'secret');
    expect(table.use('secret')).toMatchObject({ identity: ada, method: 'link' });
    expect(table.use(created?.id ?? '')).toBeUndefined();
    expect(table.use('')).toBeUndefined();
  });

  it('ends when it was not used for the idle time', () => {
    const { clock, table, create } = newTable();
    const secret = create();
    clock.time = 9 * minute;
    expect(table.use(secret)).toBeDefined();
    clock.time = 18 * minute;
    expect(table.use(secret)).toBeDefined();
    clock.time = 28 * minute;
    expect(table.use(secret)).toBeUndefined();
    expect(table.size).toBe(0);
  });

  it('ends after its lifetime although it is in use', () => {
    const { clock, table, create } = newTable();
    const secret = create();
    for (clock.time = 0; clock.time < 60 * minute; clock.time += 5 * minute) expect(table.use(secret)).toBeDefined();
    expect(table.use(secret)).toBeUndefined();
  });

  it('ends with the credentials that began it', () => {
    const { clock, table, create } = newTable();
    const secret = create('ada', 5 * minute);
    clock.time = 5 * minute;
    expect(table.use(secret)).toBeUndefined();
  });

  it('ends at sign-out', () => {
    const { table, create } = newTable();
    const secret = create();
    table.end(secret);
    expect(table.use(secret)).toBeUndefined();
  });
});

describe('the session table', () => {
  it('ends the least recently used session of a user with too many, and of no other user', () => {
    const { table, create } = newTable();
    const other = create('bob');
    const [first, second, third] = [create(), create(), create()];
    table.use(first);
    create();
    expect([other, first, second, third].map((secret) => table.use(secret) !== undefined)).toEqual([true, true, false, true]);
  });

  it('rejects new sessions when it is full, and accepts them when others have expired', () => {
    const { clock, create, table } = newTable({ maxSessions: 2 });
    const secrets = [create('a'), create('b')];
    expect(create('c')).toBe('');
    expect(secrets.every((secret) => table.use(secret) !== undefined)).toBe(true);
    clock.time = 61 * minute;
    expect(create('c')).not.toBe('');
  });
});

describe('a sign-in link', () => {
  const clock = { time: 0, now: () => clock.time };
  const links = () => {
    clock.time = 0;
    return new SignInLinks(10 * minute, clock);
  };

  it('is valid once', () => {
    const table = links();
    const { secret } = table.create(user());
    expect(table.redeem(secret)?.identity.name).toBe('ada');
    expect(table.redeem(secret)).toBeUndefined();
  });

  it('expires, at the latest with the credentials of its creator', () => {
    const table = links();
    const { secret } = table.create(user());
    const short = table.create(user('ada', 2 * minute));
    clock.time = 2 * minute;
    expect(table.redeem(short.secret)).toBeUndefined();
    clock.time = 10 * minute;
    expect(table.redeem(secret)).toBeUndefined();
  });

  it('becomes invalid when a hundred newer links exist', () => {
    const table = links();
    const { secret } = table.create(user());
    for (let i = 0; i < 100; i += 1) table.create(user());
    expect(table.redeem(secret)).toBeUndefined();
  });
});
