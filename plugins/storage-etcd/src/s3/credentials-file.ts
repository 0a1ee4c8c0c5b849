import { readFile, stat } from 'node:fs/promises';
import type { S3Credentials } from './signature-v4.ts';

const maxBytes = 64 * 1024;
const othersMayRead = 0o004;

/**
 * Reads a profile of a credentials file in the format of AWS's tools (`[default]`, `aws_access_key_id = ...`). The file is read for each use, so that
 * rotated keys apply without a restart.
 * @throws Error without any content of the file: that it is missing, readable by every user, or lacks a key
 */
export async function readCredentials(path: string, profile = 'default'): Promise<S3Credentials> {
  const { mode, size } = await stat(path);
  if ((mode & othersMayRead) !== 0) throw new Error(`every user may read ${path}, which has secret keys: run \`chmod 600 ${path}\``);
  if (size > maxBytes) throw new Error(`${path} is too large for a file of credentials`);
  const values = profileOf(await readFile(path, 'utf8'), profile);
  if (values === undefined) throw new Error(`${path} has no section [${profile}]`);
  const required = (key: string): string => {
    const value = values.get(key);
    if (value === undefined || value === '') throw new Error(`${path} has no ${key} in the section [${profile}]`);
    return value;
  };
  return {
    accessKeyId: required('aws_access_key_id'),
    secretAccessKey: required('aws_secret_access_key'),
    sessionToken: values.get('aws_session_token'),
  };
}

/** Returns the values of a section of an INI file, or undefined if there is no such section. */
function profileOf(text: string, profile: string): ReadonlyMap<string, string> | undefined {
  let current: string | undefined;
  let found: Map<string, string> | undefined;
  for (const line of text.split('\n')) {
    const [, section] = /^\s*\[\s*([^\]]*?)\s*\]/.exec(line) ?? [];
    if (section !== undefined) {
      current = section;
      if (current === profile) found ??= new Map();
      continue;
    }
    const [, key, value] = /^\s*([\w-]+)\s*=\s*(.*?)\s*$/.exec(line) ?? [];
    if (key !== undefined && value !== undefined && current === profile) found?.set(key.toLowerCase(), value);
  }
  return found;
}
