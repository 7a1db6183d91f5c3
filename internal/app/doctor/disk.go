package doctor

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"syscall"

	"github.com/prometheus/client_golang/prometheus"

	"partnerd/internal/app/config"
)

// Free space that the disk of the data folder needs. PostgreSQL keeps up to 1 GB of WAL by default (max_wal_size), and
// more during a checkpoint. Without a private cluster, the folder holds keys and small files only.
const (
	mebi        = 1 << 20
	clusterWarn = 2048 * mebi
	clusterFail = 512 * mebi
	folderWarn  = 16 * mebi
	folderFail  = 1 * mebi
)

const moreSpace = "Free space on that disk, or move PARTNERD_DATA_DIR to a larger one while the program is stopped. " +
	"Never delete files in its folder postgres."

// wantedFree returns the free space needed: less than warn will soon be too little, and less than fail is already too
// little.
func wantedFree(c *config.Config) (warn, fail uint64) {
	if c.DatabaseURL == "" {
		return clusterWarn, clusterFail
	}
	return folderWarn, folderFail
}

// diskSpace checks the free space of the data folder's disk.
func (e *examination) diskSpace() {
	free, err := freeBytes(e.DataDir)
	switch {
	case errors.Is(err, errors.ErrUnsupported), errors.Is(err, fs.ErrNotExist): // the first start creates the folder
	case err != nil:
		e.warn("disk space", "could not be checked: "+config.WithoutPath(err).Error(),
			"Check PARTNERD_DATA_DIR and its disk.")
	default:
		warn, fail := wantedFree(&e.Config)
		e.room(free, warn, fail)
	}
}

func (e *examination) room(free, warn, fail uint64) {
	found := fmt.Sprintf("%d MiB are free for %s", free/mebi, e.DataDir)
	switch {
	case free < fail:
		e.fail("disk space", fmt.Sprintf("%s; at least %d MiB are required", found, fail/mebi), moreSpace)
	case free < warn:
		e.warn("disk space", fmt.Sprintf("%s; at least %d MiB are recommended", found, warn/mebi), moreSpace)
	default:
		e.ok("disk space", found)
	}
}

// isFull reports whether a file was not written because its disk is full or its owner's disk quota is used up.
func isFull(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) }

// keepsContent writes more than a full disk or an exhausted quota can hold. An empty file would still fit.
func keepsContent(f io.WriteCloser) error {
	_, err := f.Write(make([]byte, 64<<10))
	return errors.Join(err, f.Close())
}

// dataDisk reports the free space of the data folder, and the space below which the doctor warns.
type dataDisk struct{ config *config.Config }

var (
	freeMetric = prometheus.NewDesc("partnerd_data_folder_free_bytes",
		"Free space on the disk of the data folder; absent if the system does not report it.", nil, nil)
	wantedMetric = prometheus.NewDesc("partnerd_data_folder_wanted_bytes",
		"Free space that the data folder should have; more with a private database cluster.", nil, nil)
)

// Describe implements prometheus.Collector.
func (dataDisk) Describe(out chan<- *prometheus.Desc) { out <- freeMetric; out <- wantedMetric }

// Collect implements prometheus.Collector.
func (d dataDisk) Collect(out chan<- prometheus.Metric) {
	free, err := freeBytes(d.config.DataDir)
	if err != nil {
		return
	}
	warn, _ := wantedFree(d.config)
	out <- prometheus.MustNewConstMetric(freeMetric, prometheus.GaugeValue, float64(free))
	out <- prometheus.MustNewConstMetric(wantedMetric, prometheus.GaugeValue, float64(warn))
}
