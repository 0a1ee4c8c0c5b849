import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { abstained, Authn, authenticated, type AuthnResult } from '@oarlock/spi/authn';
import { z } from 'zod';

const digest = (token: string) => createHash('sha256').update(token).digest('base64');

/** Parses a file with lines of `token,user,uid,"group1,group2"`, the format of kube-apiserver's --token-auth-file. */
function parse(text: string, file: string): Map<string, AuthnResult> {
  const users = new Map<string, AuthnResult>();
  for (const [index, line] of text.split('\n').entries()) {
    if (line.trim() === '' || line.startsWith('#')) continue;
    const fields = [...line.matchAll(/\s*(?:"([^"]*)"\s*|([^,]*))(?:,|$)/g)].map((match) => (match[1] ?? match[2] ?? '').trim());
    const [token = '', name = '', uid = '', groups = ''] = fields;
    if (token === '' || name === '') throw new Error(`${file}:${index + 1}: a line is token,user,uid,"groups"`);
    users.set(
      digest(token),
      authenticated({ name, ...(uid !== '' && { uid }), groups: [...groups.split(',').filter(Boolean), 'system:authenticated'] }),
    );
  }
  return users;
}

/** Authenticates bearer tokens of a file, which is read once at startup. Only hashes of the tokens are stored. */
export default Authn.plugin({
  id: 'authn-static-token',
  config: z.strictObject({ file: z.string().min(1) }),
  create({ config }) {
    let users = new Map<string, AuthnResult>();
    return {
      async start() {
        users = parse(await readFile(config.file, 'utf8'), config.file);
      },
      authenticate: ({ bearerToken }) => (bearerToken === undefined ? abstained : (users.get(digest(bearerToken)) ?? abstained)),
    };
  },
});
