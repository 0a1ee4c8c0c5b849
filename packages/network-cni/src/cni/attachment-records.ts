import type { Attachment } from '@oarlock/spi/network';
import type { CniResult, NetworkList } from './protocol.ts';
import { RecordFiles } from './record-files.ts';

/** The record of one attachment: written before the first CNI plugin runs, and again with the result of ADD. */
export interface AttachmentRecord {
  readonly attachment: Attachment;
  /** The configuration list that ADD used. CHECK and DEL must use the same list, even if the node's list has changed. */
  readonly list: NetworkList;
  /** The result of ADD; undefined while ADD runs and if ADD was interrupted. */
  readonly result?: CniResult;
}

/** The records of the attachments that this process made. GC frees the addresses of attachments whose records cannot be parsed. */
export type AttachmentRecords = RecordFiles<AttachmentRecord>;

export const attachmentRecords = (directory: string): AttachmentRecords =>
  new RecordFiles(directory, {
    keyOf: ({ attachment }) => attachment,
    isRecord: ({ attachment, list }) => attachment !== undefined && list !== undefined,
  });
