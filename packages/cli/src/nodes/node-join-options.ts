/** The options of `oarlock node join`. */
export interface NodeJoinOptions {
  /** URLs of the API servers. */
  readonly server?: readonly string[];
  readonly token?: string;
  readonly caHash?: string;
  readonly dataDir: string;
  readonly file?: string;
  readonly nodeName?: string;
  readonly detach: boolean;
}
