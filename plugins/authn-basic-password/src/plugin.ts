import { createHash, timingSafeEqual } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { abstained, Authn, authenticated, rejected, type AuthnResult } from '@oarlock/spi/authn';
import { z } from 'zod';

const digest = (text: string) => createHash('sha256').update(text).digest();
interface User {
  readonly password: Buffer;
  readonly result: AuthnResult;
}

/** Parses a file with lines of `password,user,uid,"group1,group2"`. */
function parse(text: string, file: string): ReadonlyMap<string, User> {
  const users = new Map<string, User>();
  for (const [index, line] of text.split('\n').entries()) {
    if (line.trim() === '' || line.startsWith('#')) continue;
    const fields = [...line.matchAll(/\s*(?:"([^"]*)"\s*|([^,]*))(?:,|$)/g)].map((match) => (match[1] ?? match[2] ?? '').trim());
    const [password = '', name = '', uid = '', groups = ''] = fields;
    if (password === '' || name === '') throw new Error(`${file}:${index + 1}: a line is password,user,uid,"groups"`);
    users.set(name, {
      password: digest(password),
      result: authenticated({ name, ...(uid !== '' && { uid }), groups: [...groups.split(',').filter(Boolean), 'system:authenticated'] }),
    });
  }
  return users;
}

const emptyDigest = digest('');

/** Authenticates `Authorization: Basic` requests with the users and passwords of a file, which is read once at startup. */
export default Authn.plugin({
  id: 'authn-basic-password',
  config: z.strictObject({ file: z.string().min(1) }),
  create({ config }) {
    let users: ReadonlyMap<string, User> = new Map();
    return {
      async start() {
        users = parse(await readFile(config.file, 'utf8'), config.file);
      },
      authenticate({ headers }) {
        const { authorization } = headers;
        const encoded = typeof authorization === 'string' ? /^basic +([A-Za-z0-9+/=]+) *$/i.exec(authorization)?.[1] : undefined;
        if (encoded === undefined || encoded.length > 4096) return abstained;
        const text = Buffer.from(encoded, 'base64').toString('utf8');
        const colon = text.indexOf(':');
        const user = colon < 0 ? undefined : users.get(text.slice(0, colon));
        // constant time, also for unknown users
        const right = timingSafeEqual(digest(text.slice(colon + 1)), user?.password ?? emptyDigest);
        if (user === undefined) return abstained;
        return right ? user.result : rejected('the password is wrong');
      },
    };
  },
});
