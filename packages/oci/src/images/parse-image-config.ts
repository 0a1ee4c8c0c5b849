import { isDigest } from '../content/digest.ts';
import type { ImageConfig } from '../image-config.ts';
import { OciError } from '../oci-error.ts';
import { limits, parseObject } from '../content/manifest.ts';

const maxEntries = 10_000;
const invalid = (field: string, expected: string) => new OciError('InvalidContent', `invalid image config: ${field} is not ${expected}`);

function textOf(value: unknown, field: string): string {
  if (value === undefined || value === null) return '';
  if (typeof value !== 'string' || value.includes('\u0000')) throw invalid(field, 'a string');
  return value;
}

function listOf(value: unknown, field: string): readonly string[] {
  if (value === undefined || value === null) return [];
  if (!Array.isArray(value) || value.length > maxEntries) throw invalid(field, `a list of at most ${maxEntries} strings`);
  return value.map((each, index) => {
    if (typeof each !== 'string' || each.includes('\u0000')) throw invalid(`${field}[${index}]`, 'a string');
    return each;
  });
}

function objectOf(value: unknown, field: string): Readonly<Record<string, unknown>> {
  if (value === undefined || value === null) return {};
  if (typeof value !== 'object' || Array.isArray(value) || Object.keys(value).length > maxEntries) throw invalid(field, 'an object');
  return value as Readonly<Record<string, unknown>>;
}

/** Parses the config blob of an image. @throws OciError `InvalidContent` */
export function parseImageConfig(bytes: Buffer): ImageConfig {
  const blob = parseObject(bytes, 'image config');
  const config = objectOf(blob['config'], 'config');
  const rootfs = objectOf(blob['rootfs'], 'rootfs');
  const diffIds = listOf(rootfs['diff_ids'], 'rootfs.diff_ids');
  if (diffIds.length > limits.layers) throw new OciError('TooLarge', `the image has more than ${limits.layers} layers`);
  for (const [index, diffId] of diffIds.entries()) if (!isDigest(diffId)) throw invalid(`rootfs.diff_ids[${index}]`, 'a sha256 digest');
  const variant = textOf(blob['variant'], 'variant');
  const labels = objectOf(config['Labels'], 'config.Labels');
  return {
    os: textOf(blob['os'], 'os'),
    architecture: textOf(blob['architecture'], 'architecture'),
    ...(variant !== '' && { variant }),
    entrypoint: listOf(config['Entrypoint'], 'config.Entrypoint'),
    cmd: listOf(config['Cmd'], 'config.Cmd'),
    env: listOf(config['Env'], 'config.Env'),
    user: textOf(config['User'], 'config.User'),
    workingDir: textOf(config['WorkingDir'], 'config.WorkingDir'),
    exposedPorts: Object.keys(objectOf(config['ExposedPorts'], 'config.ExposedPorts')),
    volumes: Object.keys(objectOf(config['Volumes'], 'config.Volumes')),
    stopSignal: textOf(config['StopSignal'], 'config.StopSignal'),
    labels: Object.fromEntries(Object.keys(labels).map((name) => [name, textOf(labels[name], `config.Labels.${name.slice(0, 100)}`)])),
    diffIds,
  };
}
