import { createHash } from 'node:crypto';
import { readdir, readFile, stat } from 'node:fs/promises';
import { extname, join } from 'node:path';
import { parseYaml } from '@oarlock/api/serializer/yaml';
import { errorText } from '@oarlock/primitives/error-text';
import { configVersions, type CredentialProvider } from './internal/config-schema.ts';
import { formatFieldErrors } from './internal/format-errors.ts';
import { validateProviders } from './internal/validate-providers.ts';

const extensions: ReadonlySet<string> = new Set(['.json', '.yaml', '.yml']);
const maxFileBytes = 1024 * 1024;
const lengthBytes = 8;

export interface CredentialProviderConfig {
  readonly providers: readonly CredentialProvider[];
  /** The digest of the files, `sha256:<hex>`, as upstream's metric has it. */
  readonly hash: string;
}

/**
 * Reads and validates a CredentialProviderConfig: one file, or the files `*.json`, `*.yaml` and `*.yml` of a directory in lexicographic order.
 * @throws Error that names the file, the field and its value
 */
export async function readCredentialProviderConfig(path: string): Promise<CredentialProviderConfig> {
  const hash = createHash('sha256');
  const providers: CredentialProvider[] = [];
  for (const file of await configFiles(path)) {
    const content = await readConfigFile(file);
    const length = Buffer.alloc(lengthBytes);
    length.writeBigUInt64BE(BigInt(content.length));
    hash.update(length).update(content);
    providers.push(...parseConfig(content.toString('utf8'), file));
  }
  const errors = validateProviders(providers);
  if (errors.length > 0) throw new Error(`the credential provider config ${path} is invalid: ${formatFieldErrors(errors)}`);
  return { providers, hash: `sha256:${hash.digest('hex')}` };
}

async function configFiles(path: string): Promise<readonly string[]> {
  let names: readonly string[];
  try {
    if (!(await stat(path)).isDirectory()) return [path];
    const entries = await readdir(path, { withFileTypes: true });
    names = entries.filter((entry) => !entry.isDirectory() && extensions.has(extname(entry.name))).map(({ name }) => name);
  } catch (error) {
    throw new Error(`reading the credential provider config failed: ${errorText(error)}`, { cause: error });
  }
  if (names.length === 0) throw new Error(`the credential provider config ${path} is a directory without *.json, *.yaml and *.yml files`);
  return names.toSorted((a, b) => (a < b ? -1 : 1)).map((name) => join(path, name));
}

async function readConfigFile(file: string): Promise<Buffer> {
  try {
    const { size } = await stat(file);
    if (size > maxFileBytes) throw new Error(`it has more than ${maxFileBytes} bytes`);
    return await readFile(file);
  } catch (error) {
    throw new Error(`reading the credential provider config ${file} failed: ${errorText(error)}`, { cause: error });
  }
}

function parseConfig(text: string, file: string): readonly CredentialProvider[] {
  const invalid = (why: string, cause?: unknown) => new Error(`the credential provider config ${file} is invalid: ${why}`, { cause });
  let parsed: ReturnType<typeof parseYaml>;
  try {
    parsed = parseYaml(text);
  } catch (error) {
    throw invalid(errorText(error), error);
  }
  if (parsed.duplicates.length > 0) throw invalid(parsed.duplicates.join('; '));
  const { apiVersion } = (parsed.value ?? {}) as { readonly apiVersion?: unknown };
  const schema = typeof apiVersion === 'string' ? configVersions.get(apiVersion) : undefined;
  if (schema === undefined) {
    const supported = [...configVersions.keys()].map((each) => JSON.stringify(each)).join(', ');
    throw invalid(`apiVersion: Unsupported value: ${JSON.stringify(apiVersion ?? '')}: supported values: ${supported}`);
  }
  const result = schema.safeParse(parsed.value);
  if (result.success) return result.data.providers;
  throw invalid(formatFieldErrors(result.error.issues.map(({ path, message }) => ({ field: fieldPath(path), message }))));
}

const fieldPath = (path: readonly PropertyKey[]): string =>
  path.reduce<string>((at, part) => (typeof part === 'number' ? `${at}[${part}]` : at === '' ? String(part) : `${at}.${String(part)}`), '');
