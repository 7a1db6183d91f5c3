<?php

declare(strict_types=1);

namespace PartnerSdk;

/** The client refused, or the callback does not belong to the link that was begun. */
final class LinkRefusedException extends \RuntimeException
{
    /** @param string $reason "access_denied" when the client refused; another "error" of the authorize page; "invalid_state" or "invalid_issuer" */
    public function __construct(public readonly string $reason, string $description)
    {
        parent::__construct("$reason: $description");
    }
}
