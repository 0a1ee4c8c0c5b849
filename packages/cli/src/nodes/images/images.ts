import { open } from 'node:fs/promises';
import type { Readable } from 'node:stream';
import type { ListedImage } from '@oarlock/oci/control/image-commands';
import { fileErrorReason } from '@oarlock/primitives/os/file-error';
import { CommandError, exitCodes } from '../../common/command-error.ts';
import { formatTable } from '../../common/format-table.ts';
import { printFacts, type OutputFormat } from '../../common/output.ts';
import { withImages } from './image-access.ts';

interface ImageOptions {
  readonly dataDir: string;
}

/** An image as `oarlock image list -o json` shows it. */
interface ImageFacts {
  readonly names: readonly string[];
  /** Digest of the manifest. */
  readonly digest: string;
  readonly id: string;
  readonly sizeBytes: number;
  /** What of the image this machine could not extract. */
  readonly notes: readonly string[];
}

/** Prints the images of a node. */
export async function list({ dataDir, output }: ImageOptions & { readonly output: OutputFormat }): Promise<void> {
  const images = await withImages(dataDir, (commands) => commands.list());
  await printFacts(output, { images: images.map(factsOf) }, ({ images: facts }) =>
    formatTable([['NAME', 'DIGEST', 'SIZE'], ...facts.flatMap(rowsOf)]),
  );
}

/** Pulls an image. @throws CommandError if the reference is invalid */
export async function pull(reference: string, { dataDir }: ImageOptions): Promise<void> {
  report('Pulled', await withImages(dataDir, (commands) => commands.pull(reference)));
}

/** Adds the images of an archive. @throws CommandError if the file cannot be read */
export async function load(file: string, { dataDir, reference }: ImageOptions & { readonly reference?: string }): Promise<void> {
  const archive = await openArchive(file);
  try {
    const images = await withImages(dataDir, (commands) => commands.load(archive, { name: reference }));
    for (const image of images) report('Loaded', image);
  } finally {
    archive.destroy();
  }
}

/** Removes a name or an image. @throws OciError `NotFound` */
export async function remove(image: string, { dataDir }: ImageOptions): Promise<void> {
  await withImages(dataDir, (commands) => commands.remove(image));
  process.stdout.write(`Removed ${image}\n`);
}

async function openArchive(file: string): Promise<Readable> {
  if (file === '-') {
    if (process.stdin.isTTY) throw new CommandError('-: standard input is a terminal; redirect an archive to it', exitCodes.usage);
    return process.stdin;
  }
  try {
    const handle = await open(file);
    if (!(await handle.stat()).isDirectory()) return handle.createReadStream();
    await handle.close();
  } catch (cause) {
    throw new CommandError(`${file} cannot be read: ${fileErrorReason(cause)}`, exitCodes.usage, { cause });
  }
  throw new CommandError(`${file} is a directory; pack an OCI layout with tar`, exitCodes.usage);
}

function factsOf({ repoTags, repoDigests, manifestDigest, id, sizeBytes, notes }: ListedImage): ImageFacts {
  return { names: repoTags.length > 0 ? repoTags : repoDigests, digest: manifestDigest, id, sizeBytes, notes };
}

function rowsOf({ names, digest, sizeBytes }: ImageFacts): readonly (readonly string[])[] {
  return (names.length === 0 ? ['<none>'] : names).map((name) => [name, digest, sizeText(sizeBytes)]);
}

const sizeText = (bytes: number): string => `${(bytes / 1024 / 1024).toFixed(1)} MiB`;

function report(done: string, image: ListedImage): void {
  const { names, digest, id, sizeBytes, notes } = factsOf(image);
  process.stdout.write(`${done} ${names.length === 0 ? id : names.join(', ')} (${digest}, ${sizeText(sizeBytes)})\n`);
  for (const note of notes) process.stderr.write(`${note}\n`);
}
